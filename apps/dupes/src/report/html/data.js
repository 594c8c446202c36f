
"use strict";
// What is in the page, and how it is said. Names are only ever put into text nodes.

const data = JSON.parse(document.getElementById("data").textContent);
const folders = data.folders;
const NONE = -1;

/** An element with a class and children: nodes, or strings, which become text. */
function element(tag, name, ...children) {
  const made = document.createElement(tag);
  if (name) made.className = name;
  made.append(...children);
  return made;
}

function number(count) {
  return count.toLocaleString("en-US");
}

function counted(count, one, many) {
  return number(count) + " " + (count === 1 ? one : many);
}

/** As the program says it: 1 byte, 512 bytes, 12.3 MiB. */
function size(bytes) {
  if (bytes < 1024) return counted(bytes, "byte", "bytes");
  let value = bytes / 1024;
  let unit = 0;
  while (value >= 1023.95) {
    value /= 1024;
    unit += 1;
  }
  // What lies in the middle goes to the even side there; only quarters are in the middle exactly.
  if (value % 1 === 0.25) value -= 0.05;
  return value.toFixed(1) + " " + ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"][unit];
}

/** Whole percent; what is little is not nothing, and almost all is not all. */
function percent(part, whole) {
  if (part <= 0 || whole <= 0) return 0;
  return part >= whole ? 100 : Math.min(99, Math.max(1, Math.round((100 * part) / whole)));
}

// Put together once each: what a folder lies in comes before it.
const folderPaths = [];
for (let i = 0; i < folders.parent.length; i += 1) {
  const parent = folders.parent[i];
  folderPaths.push(parent === NONE ? folders.name[i] : below(folderPaths[parent]) + folders.name[i]);
}
let lowerPaths = null;

/** A path to which a name can be added. */
function below(path) {
  return path.endsWith("/") ? path : path + "/";
}

function folderPath(folder) {
  return folder === NONE ? "?" : folderPaths[folder];
}

/** For searches. */
function lowerPath(folder) {
  if (folder === NONE) return "?";
  if (!lowerPaths) lowerPaths = folderPaths.map((path) => below(path.toLowerCase()));
  return lowerPaths[folder];
}

/** A path, its last name stronger than what comes before. */
function pathElement(folder, name) {
  const line = element("div", "path");
  line.append(element("span", "folder", below(folderPath(folder))), element("span", "name", name));
  return line;
}
