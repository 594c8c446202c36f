
// Where the space goes: a folder, what is in it, and what is in that.

const TOP = NONE;
// Tiles of a folder, and of a folder in it; what is smaller is one tile.
const TILES = 60;
const INNER_TILES = 30;
// How far down it is shown what is in a folder.
const LEVELS = 3;
const GAP = 2;
const HEAD = 22;
const INNER_HEAD = 17;

const childrenOf = new Map();
for (let i = 0; i < folders.disk.length; i += 1) {
  const parent = folders.parent[i];
  if (!childrenOf.has(parent)) childrenOf.set(parent, []);
  childrenOf.get(parent).push(i);
}
for (const children of childrenOf.values()) children.sort((a, b) => folders.disk[b] - folders.disk[a] || a - b);

/** What a folder amounts to; TOP: all roots together. */
function amount(folder) {
  if (folder !== TOP) {
    const of = (column) => folders[column][folder];
    return { files: of("files"), disk: of("disk"), copied: of("copied"), reclaimable: of("reclaimable") };
  }
  const all = { files: 0, disk: 0, copied: 0, reclaimable: 0 };
  for (const root of childrenOf.get(TOP) || []) {
    for (const [name, value] of Object.entries(amount(root))) all[name] += value;
  }
  return all;
}

/** Parts of a folder, the largest first: folders, the files in it, and all that is too small. */
function partsOf(folder, most) {
  const children = (childrenOf.get(folder) || []).slice(0, most);
  const parts = children.map((child) => ({ folder: child, name: folders.name[child], ...amount(child) }));
  const rest = amount(folder);
  for (const part of parts) for (const name of Object.keys(rest)) rest[name] -= part[name];
  if (folder !== TOP) {
    const own = {
      files: folders.own_files[folder], disk: folders.own_disk[folder],
      copied: folders.own_copied[folder], reclaimable: folders.own_reclaimable[folder],
    };
    for (const name of Object.keys(rest)) rest[name] -= own[name];
    if (own.files > 0) parts.push({ folder: null, name: counted(own.files, "file", "files") + " here", ...own });
    const smaller = folders.children[folder] - children.length;
    if (smaller > 0) parts.push({ folder: null, name: counted(smaller, "smaller folder", "smaller folders"), ...rest });
  }
  return parts.filter((part) => part.disk > 0).sort((a, b) => b.disk - a.disk);
}

/** The step of the colour. */
function step(part) {
  const share = percent(part.copied, part.disk);
  return share === 0 ? 0 : Math.min(4, Math.ceil(share / 25));
}

/** The worst ratio of sides in a row of areas along a side of this length. */
function worst(row, sum, length) {
  const square = (sum * sum) / (length * length);
  return Math.max((row[0].area / square), square / row[row.length - 1].area);
}

/**
 * Gives each part a rectangle, with areas as its bytes and sides as equal as can be: rows are
 * laid along the shorter side, and end where one more part would make them thinner.
 */
function squarify(parts, left, top, width, height) {
  const total = parts.reduce((sum, part) => sum + part.disk, 0);
  if (total === 0 || width <= 0 || height <= 0) return [];
  const waiting = parts.map((part) => ({ part, area: (part.disk / total) * width * height }));
  const placed = [];
  let at = 0;
  while (at < waiting.length) {
    const length = Math.min(width, height);
    const row = [waiting[at]];
    let sum = waiting[at].area;
    let next = at + 1;
    for (; next < waiting.length; next += 1) {
      const longer = [...row, waiting[next]];
      if (worst(longer, sum + waiting[next].area, length) > worst(row, sum, length)) break;
      row.push(waiting[next]);
      sum += waiting[next].area;
    }
    const depth = length > 0 ? sum / length : 0;
    const lies = width >= height; // a column at the left, or a row at the top
    let along = lies ? top : left;
    for (const { part, area } of row) {
      const extent = depth > 0 ? area / depth : 0;
      placed.push(lies
        ? { part, left, top: along, width: depth, height: extent }
        : { part, left: along, top, width: extent, height: depth });
      along += extent;
    }
    if (lies) { left += depth; width -= depth; } else { top += depth; height -= depth; }
    at = next;
  }
  return placed;
}

function describe(part) {
  const words = [size(part.disk) + " on disk", counted(part.files, "file", "files")];
  words.push(percent(part.copied, part.disk) + " % has an equal file");
  if (part.reclaimable > 0) words.push(size(part.reclaimable) + " reclaimable");
  return part.name + ": " + words.join(", ");
}

function put(tile, box, gap) {
  tile.style.left = box.left + "px";
  tile.style.top = box.top + "px";
  tile.style.width = Math.max(0, box.width - gap) + "px";
  tile.style.height = Math.max(0, box.height - gap) + "px";
}

const map = document.getElementById("map");
const mapDetail = document.getElementById("map-detail");
const crumbs = document.getElementById("crumbs");
const mapState = { folder: TOP };

function isOffline(folder) {
  while (folder !== NONE && folders.parent[folder] !== NONE) folder = folders.parent[folder];
  return folder !== NONE && data.totals.offline.includes(folders.name[folder]);
}

function tileOf(box) {
  const { part } = box;
  const tile = element("button", "tile step-" + step(part) + (part.folder === null ? " part" : ""));
  tile.type = "button";
  tile.tabIndex = -1;
  put(tile, box, GAP);
  if (part.folder === null) {
    tile.setAttribute("aria-disabled", "true");
  } else {
    tile.dataset.folder = part.folder;
    tile.addEventListener("click", () => go(part.folder));
  }
  const said = describe(part) + (isOffline(part.folder === null ? NONE : part.folder) ? ", offline" : "");
  tile.setAttribute("aria-label", said);
  for (const event of ["mouseenter", "focus"]) tile.addEventListener(event, () => { mapDetail.textContent = said; });
  if (box.width > 44 && box.height > 20) {
    tile.append(element("span", "label", element("b", "", part.name), " " + size(part.disk)));
  }
  tile.append(...innerTiles(part.folder, box.width - GAP, box.height - GAP, HEAD, 1));
  return tile;
}

/** What is in a folder that is shown in another one: to be seen, not to be clicked by itself. */
function innerTiles(folder, width, height, head, level) {
  if (folder === null || level > LEVELS || width < 60 || height < 60) return [];
  const parts = partsOf(folder, INNER_TILES);
  if (parts.length === 1 && parts[0].folder === null) return [];
  const boxes = squarify(parts, 3, head, width - 5, height - head - 2);
  return boxes.filter((inner) => inner.width > 4 && inner.height > 4).map((inner) => {
    const { part } = inner;
    const tile = element("span", "inner step-" + step(part) + (part.folder === null ? " part" : ""));
    tile.setAttribute("aria-hidden", "true");
    put(tile, inner, 1);
    if (inner.width > 36 && inner.height > 18) tile.append(part.name);
    tile.append(...innerTiles(part.folder, inner.width - 1, inner.height - 1, INNER_HEAD, level + 1));
    return tile;
  });
}

function drawMap() {
  const boxes = squarify(partsOf(mapState.folder, TILES), 0, 0, map.clientWidth + GAP, map.clientHeight + GAP);
  const tiles = boxes.filter((box) => box.width > GAP && box.height > GAP).map(tileOf);
  map.replaceChildren(...tiles.map((tile) => element("li", "", tile)));
  if (tiles.length > 0) tiles[0].tabIndex = 0;
  const name = mapState.folder === TOP ? "All roots" : folderPath(mapState.folder);
  mapDetail.textContent = describe({ ...amount(mapState.folder), name });
  if (tiles.length === 0) map.append(element("li", "quiet", "Nothing here takes space."));
  drawCrumbs();
}

function drawCrumbs() {
  const way = [];
  for (let at = mapState.folder; at !== TOP; at = folders.parent[at]) way.unshift(at);
  way.unshift(TOP);
  const items = way.map((folder) => {
    const crumb = element("button", "", folder === TOP ? "All roots" : folders.name[folder]);
    crumb.type = "button";
    if (folder === mapState.folder) crumb.setAttribute("aria-current", "page");
    crumb.addEventListener("click", () => go(folder));
    return element("li", "", crumb);
  });
  crumbs.replaceChildren(...items);
}

/** Shows a folder, and gives the focus to the one that was left, or to the largest part. */
function go(folder) {
  const left = mapState.folder;
  if (folder === left) return;
  mapState.folder = folder;
  drawMap();
  let came = left;
  while (came !== NONE && folders.parent[came] !== folder) came = folders.parent[came];
  const tile = map.querySelector('[data-folder="' + came + '"]') || map.querySelector(".tile");
  if (tile) focusTile(tile);
}

function focusTile(tile) {
  for (const other of map.querySelectorAll(".tile")) other.tabIndex = -1;
  tile.tabIndex = 0;
  tile.focus({ preventScroll: true });
}

map.addEventListener("keydown", (event) => {
  const tiles = [...map.querySelectorAll(".tile")];
  const at = tiles.indexOf(document.activeElement);
  const ways = {
    ArrowRight: at + 1, ArrowDown: at + 1, ArrowLeft: at - 1, ArrowUp: at - 1, Home: 0, End: tiles.length - 1,
  };
  if (event.key in ways) {
    focusTile(tiles[Math.min(tiles.length - 1, Math.max(0, ways[event.key]))]);
  } else if ((event.key === "Escape" || event.key === "Backspace") && mapState.folder !== TOP) {
    go(folders.parent[mapState.folder]);
  } else {
    return;
  }
  event.preventDefault();
});

function startMap() {
  // One root is no choice.
  const roots = childrenOf.get(TOP) || [];
  mapState.folder = roots.length === 1 ? roots[0] : TOP;
  drawMap();
  let width = map.clientWidth;
  new ResizeObserver(() => {
    if (map.clientWidth === width) return;
    width = map.clientWidth;
    drawMap();
  }).observe(map);
}
