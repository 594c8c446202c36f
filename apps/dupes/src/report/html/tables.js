
// Tables of many rows: sorted and searched as a whole, shown a page at a time.

const ROWS = 50;
const NAMES = 5;

/**
 * rows: what is shown, in the order to begin with. keys: for each column what it is sorted by, numbers
 * from large to small at first, text from A on. matches(row, words, kind): whether a search keeps it.
 * cells(row, redraw): its cells.
 */
function startTable({ section, rows, keys, matches, cells }) {
  const body = section.querySelector(".tools ~ .scroll tbody");
  const pager = section.querySelector(".pager");
  const search = section.querySelector("input");
  const kinds = section.querySelector("select");
  const heads = [...section.querySelectorAll("th button[data-key]")];
  const state = { order: rows.map((_, i) => i), found: [], key: "reclaimable", falling: true, page: 0 };

  function sort() {
    const key = rows.map(keys[state.key]);
    const sign = state.falling ? -1 : 1;
    const compare = (a, b) => (key[a] < key[b] ? -sign : key[a] > key[b] ? sign : a - b);
    state.order = rows.map((_, i) => i).sort(compare);
    for (const head of heads) {
      const cell = head.closest("th");
      if (head.dataset.key === state.key) cell.setAttribute("aria-sort", state.falling ? "descending" : "ascending");
      else cell.removeAttribute("aria-sort");
    }
    filter();
  }

  function filter() {
    const words = search.value.toLowerCase().split(/\s+/).filter((word) => word);
    const kind = kinds ? kinds.value : "";
    const all = words.length === 0 && kind === "";
    state.found = all ? state.order : state.order.filter((i) => matches(rows[i], words, kind));
    turn(0);
  }

  function turn(page) {
    const last = Math.max(0, Math.ceil(state.found.length / ROWS) - 1);
    state.page = Math.min(last, Math.max(0, page));
    const from = state.page * ROWS;
    const shown = state.found.slice(from, from + ROWS);
    body.replaceChildren(...shown.map((i) => rowElement(rows[i])));
    if (shown.length === 0) {
      const cell = element("td", "quiet", rows.length === 0 ? "There are none." : "Nothing matches.");
      cell.colSpan = heads.length;
      body.append(element("tr", "", cell));
    }
    drawPager(from, shown.length, last);
  }

  function rowElement(row) {
    const line = element("tr", "");
    const draw = (isWhole) => line.replaceChildren(...cells(row, isWhole, () => draw(true)));
    draw(false);
    return line;
  }

  function drawPager(from, count, last) {
    const button = (text, label, page) => {
      const made = element("button", "", text);
      made.type = "button";
      made.setAttribute("aria-label", label);
      made.disabled = page === state.page || page < 0 || page > last;
      made.addEventListener("click", () => {
        turn(page);
        const again = pager.querySelector('[aria-label="' + label + '"]');
        (again.disabled ? pager.querySelector("button:not(:disabled)") || search : again).focus();
      });
      return made;
    };
    const range = count === 0 ? "0" : number(from + 1) + "\u2013" + number(from + count);
    const where = element("span", "", range + " of " + number(state.found.length));
    where.setAttribute("role", "status");
    pager.replaceChildren(
      button("\u00ab", "First page", 0), button("\u2039", "Previous page", state.page - 1), where,
      button("\u203a", "Next page", state.page + 1), button("\u00bb", "Last page", last),
    );
  }

  for (const head of heads) {
    head.addEventListener("click", () => {
      const again = state.key === head.dataset.key;
      state.falling = again ? !state.falling : head.dataset.key !== "path" && head.dataset.key !== "kind";
      state.key = head.dataset.key;
      sort();
    });
  }
  search.addEventListener("input", filter);
  if (kinds) kinds.addEventListener("change", filter);
  sort();
}

function cell(name, ...children) {
  return element("td", name, ...children);
}

function moreButton(text, show) {
  const button = element("button", "more", text);
  button.type = "button";
  button.addEventListener("click", show);
  return button;
}

/** From an array of numbers and names, as the program has written it. */
function setOf([bytes, reclaimable, copies, more, flat]) {
  const names = [];
  for (let i = 0; i < flat.length; i += 3) {
    const name = flat[i + 1] === null ? names[names.length - 1].name : flat[i + 1];
    names.push({ folder: flat[i], name, isLink: (flat[i + 2] & 1) > 0, isOffline: (flat[i + 2] & 2) > 0 });
  }
  return { size: bytes, reclaimable, copies, more, names };
}

function setCells(set, isWhole, redraw) {
  const lines = (isWhole ? set.names : set.names.slice(0, NAMES)).map(({ folder, name, isLink, isOffline }) => {
    const line = pathElement(folder, name);
    if (isLink) line.append(element("span", "tag", "same file as above"));
    if (isOffline) line.append(element("span", "tag", "offline"));
    return line;
  });
  if (lines.length < set.names.length) {
    lines.push(moreButton(number(set.names.length - lines.length) + " more", redraw));
  } else if (set.more > 0) {
    lines.push(element("div", "aside", "and " + counted(set.more, "more name", "more names") + ", not in this page"));
  }
  return [
    cell("number", size(set.reclaimable)), cell("number", size(set.size)),
    cell("number", number(set.copies)), cell("wide", ...lines),
  ];
}

function startSets() {
  startTable({
    section: document.getElementById("sets"),
    rows: data.sets.map(setOf),
    keys: {
      reclaimable: (set) => set.reclaimable,
      size: (set) => set.size,
      copies: (set) => set.copies,
      path: (set) => below(folderPath(set.names[0].folder)) + set.names[0].name,
    },
    matches: (set, words) => set.names.some(({ folder, name }) => {
      const path = lowerPath(folder) + name.toLowerCase();
      return words.every((word) => path.includes(word));
    }),
    cells: setCells,
  });
}

const KINDS = ["equal", "alike", "held"];

function kindText(claim) {
  return claim.kind === "alike" ? Math.floor(claim.similarity * 100) + "\u00a0% alike" : claim.kind;
}

/** Files that both have. */
function sharedFiles(claim) {
  return claim.kind === "alike" ? claim.shared : claim.kind === "held" ? claim.files[0] : claim.files;
}

/** So many, with some of their names. */
function examples(text, [count, names]) {
  if (count === 0) return [];
  const shown = names.length === 0 ? "" : " (" + names.join(", ") + (names.length < count ? ", \u2026" : "") + ")";
  return [element("div", "aside", text + ": " + number(count) + shown)];
}

function claimCells(claim, isWhole, redraw) {
  const shown = isWhole ? claim.folders : claim.folders.slice(0, NAMES);
  const lines = [];
  shown.forEach((folder, side) => {
    const parent = folder === NONE ? NONE : folders.parent[folder];
    const line = parent === NONE ? element("div", "path", folderPath(folder)) : pathElement(parent, folders.name[folder]);
    if (claim.offline.includes(side)) line.append(element("span", "tag", "offline"));
    if (claim.kind === "held") line.prepend(element("span", "folder", side === 0 ? "all of " : "is in "));
    lines.push(line);
    if (claim.kind === "alike") {
      lines.push(...examples("only here", claim.only[side]), ...examples("not compared", claim.not_compared[side]));
    }
  });
  if (claim.kind === "alike") {
    lines.push(...examples("other content", claim.other_content), ...examples("other time", claim.other_time));
  }
  if (shown.length < claim.folders.length) {
    lines.push(moreButton(number(claim.folders.length - shown.length) + " more", redraw));
  } else if (claim.more > 0) {
    lines.push(element("div", "aside", "and " + counted(claim.more, "more folder", "more folders") + ", not in this page"));
  }
  if (claim.in_pair) lines.push(element("div", "aside", "lies in folders of another line"));
  return [
    cell("number", size(claim.reclaimable)), cell("kind", kindText(claim)),
    cell("number", number(sharedFiles(claim))), cell("number", size(claim.bytes)), cell("wide", ...lines),
  ];
}

function startClaims() {
  startTable({
    section: document.getElementById("claims"),
    rows: data.claims,
    keys: {
      reclaimable: (claim) => claim.reclaimable,
      kind: (claim) => KINDS.indexOf(claim.kind) + (claim.kind === "alike" ? 0.9 * (1 - claim.similarity) : 0),
      files: sharedFiles,
      bytes: (claim) => claim.bytes,
      path: (claim) => folderPath(claim.folders[0]),
    },
    matches: (claim, words, kind) => (kind === "" || claim.kind === kind) &&
      (words.length === 0 || claim.folders.some((folder) => words.every((word) => lowerPath(folder).includes(word)))),
    cells: claimCells,
  });
}
