// The catalog: a virtualised table, a bar with the magic line that does the same, and a detail area beneath.
// Everything shown was written by a server: it gets into the page by textContent and setAttribute, nothing else.

const ROW = 28, SHOWN = 12, SPARE = 6, POOL = SHOWN + 2 * SPARE + 1;

// -- the same in trace.js; a test holds the two copies together
const HIDDEN = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\u{e0000}-\u{e007f}]/gu;
// Characters that hide text or turn its direction are shown by their numbers.
const visible = text => String(text ?? "").replace(HIDDEN, c => `⟨U+${c.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`);
const clip = (text, most) => text.length > most ? `${text.slice(0, most)}… (+${(text.length - most).toLocaleString("en")} characters)` : text;
const mk = (tag, attributes = {}, text) => {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  // JupyterLab looks for this on the focused element itself; without it `x` or `d d` delete the notebook's cell.
  if ("tabindex" in attributes || ["button", "input", "select"].includes(tag)) node.setAttribute("data-lm-suppress-shortcuts", "true");
  if (text !== undefined) node.textContent = visible(text);
  return node;
};
// -- until here

const number = n => n === null ? "" : n.toLocaleString("en");
const bytes = n => {
  if (n === null || n < 1024) return n === null ? "" : `${number(n)} B`;
  const power = Math.min(4, Math.floor(Math.log2(n) / 10));
  return `${(n / 1024 ** power).toFixed(1)} ${["", "KB", "MB", "GB", "TB"][power]}`;
};
const STATES = { attached: "● attached", changed: "● changed", read: "○ read", failed: "▲ failed" };

const COLUMNS = [
  { name: "state", width: "7.2em", show: r => STATES[r.state] ?? "", by: r => r.state || null },
  { name: "server", width: "minmax(5.2em,.35fr)", show: r => r.server },
  { name: "name", width: "minmax(8em,1.3fr)", show: r => r.label },
  { name: "URI", width: "minmax(8em,1.4fr)", show: r => r.uri },
  { name: "type", width: "minmax(5em,.5fr)", show: r => r.kind === "resource" && r.mime ? r.mime : [r.kind, r.mime].filter(Boolean).join(", ") },
  { name: "size", width: "5.4em", show: r => bytes(r.size), by: r => r.size, right: true },
  { name: "description", width: "minmax(9em,1.8fr)", show: r => r.description ?? "", by: r => r.description },
  { name: "tokens", width: "5.2em", show: r => number(r.tokens), by: r => r.tokens, right: true },
];
const WIDTHS = [...COLUMNS.map(c => c.width), "6.6em"].join(" ");

const attached = row => row.state === "attached" || row.state === "changed";
const attachable = row => row.kind === "resource" || row.kind === "template";
const verb = row => !attachable(row) ? "preview" : attached(row) ? "detach" : "attach";
const capital = word => word[0].toUpperCase() + word.slice(1);

// RFC 6570: what stands before the first value, between values, and whether names are written.
const OPERATORS = {
  "": ["", ","], "+": ["", ","], "#": ["#", ","], ".": [".", "."], "/": ["/", "/"],
  ";": [";", ";", true], "?": ["?", "&", true], "&": ["&", "&", true],
};
const EXPRESSION = /\{([+#./;?&]?)([^{}]+)\}/g;
const named = spec => spec.trim().replace(/\*$|:\d+$/, "");
const escaped = (value, reserved) => reserved
  ? encodeURI(value).replace(/%5B/g, "[").replace(/%5D/g, "]").replace(/%25([0-9A-Fa-f]{2})/g, "%$1")
  : encodeURIComponent(value).replace(/[!'()*]/g, c => "%" + c.charCodeAt(0).toString(16).toUpperCase());

export function expand(template, values) {
  return template.replace(EXPRESSION, (_, operator, specs) => {
    const [first, between, names] = OPERATORS[operator];
    const parts = specs.split(",").filter(spec => values[named(spec)]).map(spec => {
      const length = /:(\d+)$/.exec(spec.trim())?.[1] ?? Infinity;
      const value = escaped([...values[named(spec)]].slice(0, length).join(""), operator === "+" || operator === "#");
      return names ? `${named(spec)}=${value}` : value;
    });
    return parts.length ? first + parts.join(between) : "";
  });
}

// As Python's shlex reads it back.
const quoted = text => /^[^\s'"\\]+$/.test(text) ? text : `'${text.replaceAll("'", `'"'"'`)}'`;

// Bytes of no type, under a name that Python has made safe: the browser writes a file and opens nothing.
function download(name, buffer) {
  const url = URL.createObjectURL(new Blob([buffer], { type: "application/octet-stream" }));
  mk("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

// What a model instance knows, shared by its views.
class Store {
  values = new Map(); suggestions = new Map(); total = null; asked = false; preview = null; notice = ""; busy = new Set(); working = new Map(); views = new Set(); saving = new Map();

  constructor() { this.empty(); }
  empty() {
    Object.assign(this, { rows: [], index: new Map(), servers: new Set(), uris: new Map(), kinds: new Map(), held: 0 });
    for (const view of this.views) view.chosen = -1;
  }
  put(at, [key, server, kind, label, uri, mime, size, description, tokens, counter, state, reason, variables, facts, icon, required]) {
    const old = this.rows[at];
    if (old) {
      this.uris.set(old.uri, this.uris.get(old.uri) - 1);
      this.kinds.set(old.kind, this.kinds.get(old.kind) - 1);
    } else this.held++;
    const search = [server, kind, label, uri, mime, description].join("\n").toLowerCase();
    this.rows[at] = { key, server, kind, label, uri, mime, size, description, tokens, counter, state, reason, variables, facts, icon, required, search };
    this.index.set(key, at);
    this.servers.add(server);
    this.uris.set(uri, (this.uris.get(uri) ?? 0) + 1);
    this.kinds.set(kind, (this.kinds.get(kind) ?? 0) + 1);
  }
  // What the rows are: of one kind only, as in the table of the prompts, they are called that.
  get noun() {
    const kinds = [...this.kinds].filter(([, held]) => held).map(([kind]) => kind);
    return kinds.length === 1 ? `${kinds[0]}${this.total === 1 ? "" : "s"}` : "entries";
  }
  get attachables() { return Boolean(this.kinds.get("resource") || this.kinds.get("template")); }
  receive(message, buffers) {
    const { kind, key } = message;
    if (kind === "rows") {
      if (message.from === 0) this.empty();
      this.total = message.total;
      message.rows.forEach((row, i) => this.put(message.from + i, row));
      this.wait();
    } else if (kind === "update" && this.total !== null) {  // before the rows: they will tell
      this.busy.delete(message.row[0]);
      const at = this.index.get(message.row[0]);
      this.put(at ?? this.rows.length, message.row);
      if (at === undefined) this.total++;
      else return this.tell("row");
    } else if (kind === "preview") this.preview = message;
    else if (kind === "suggest") return this.suggestions.get(key + "\n" + message.name)?.(message);
    else if (kind === "file") this.saved(message.token, buffers[0]);
    else if (kind === "notice") this.notice = message.text;
    else if (kind === "working") this.working.set(key, message.text);
    if (kind === "preview" || kind === "done") this.busy.delete(key);
    this.tell(kind === "rows" || kind === "update" ? "rows" : "row");
  }
  // A reloaded page has a new model and no rows: it asks for them, once, after a second of silence.
  wait() {
    clearTimeout(this.timer);
    if (this.asked || this.held === this.total) return;
    this.timer = setTimeout(() => { this.asked = true; this.send({ kind: "hello" }); }, 1000);
  }
  open(el) {
    const view = new View(this, el);
    this.views.add(view);
    return view;
  }
  close(view) { this.views.delete(view); view.close(); }
  tell(what) { for (const view of this.views) view.schedule(what); }
  filled(row) { return Object.fromEntries(row.variables.map(name => [name, this.values.get(row.key)?.get(name) ?? ""])); }
  missing(row) {
    const filled = this.filled(row);
    return row.required.filter(name => !filled[name]);
  }
  act(kind, row) {
    if (this.busy.has(row.key)) return;
    this.busy.add(row.key);
    this.send({ kind, key: row.key, values: this.filled(row) });
    this.tell("row");
  }
  // `value` comes back with the answer, so that one that is late is told from the one that is waited for.
  complete(row, name, show) {
    clearTimeout(this.completing);
    this.suggestions.set(row.key + "\n" + name, show);
    this.completing = setTimeout(() => this.send({ kind: "complete", key: row.key, name, values: this.filled(row) }), 200);
  }
  // Every page that shows this notebook hears the bytes; the one that knows the token has asked for them.
  save(number) {
    const token = String(Math.random()), preview = this.preview, name = preview.files[number][0];
    this.saving.set(token, { preview, name });
    preview.said = `Saving ${name}…`;
    this.send({ kind: "save", key: preview.key, number, token });
    this.tell("row");
  }
  saved(token, buffer) {
    const { preview, name } = this.saving.get(token) ?? {};
    if (!preview) return;
    this.saving.delete(token);
    if (buffer) download(name, buffer);
    preview.said = buffer ? `${name} went to the browser's downloads` : `${name} is not at hand any more: preview it again`;
  }
  line(verb, row) {
    if (this.missing(row).length) return `Fill in ${this.missing(row).join(", ")} to get the line.`;
    const filled = this.filled(row), given = row.kind === "prompt" ? row.variables.filter(name => filled[name]) : [];
    const words = [row.kind === "template" ? expand(row.uri, filled) : row.uri, ...given.map(name => `${name}=${filled[name]}`)];
    if (words.some(word => visible(word) !== word || /[\r\n\t\ufffd]/.test(word)))
      return `No magic line can name this${row.kind === "prompt" ? "" : " URI"}: it holds characters that cannot be typed.`;
    const server = this.uris.get(row.uri) > 1 ? ` --server ${quoted(row.server)}` : "";
    return `%mcp ${verb} ${words.map(quoted).join(" ")}${server}`;
  }
}

// One row element, used again for whichever row scrolls into its place. It writes to the page only what changed, so a
// redraw between press and release of the mouse does not take the button away.
class Slot {
  constructor() {
    this.el = mk("div", { role: "row", class: "wb-row", tabindex: -1 });
    this.cells = COLUMNS.map(c => mk("span", { role: "gridcell", class: c.right ? "wb-right" : "" }));
    const last = mk("span", { role: "gridcell" });
    this.button = mk("button", { type: "button", tabindex: -1 });
    last.append(this.button);
    this.el.append(...this.cells, last);
  }
  hide() { this.el.hidden = true; this.k = -1; }
  show(k, row, active, chosen, busy) {
    const now = { k, row, active, chosen, busy };
    if (Object.entries(now).every(([name, value]) => this[name] === value)) return;
    Object.assign(this, now);
    this.el.hidden = false;
    this.el.style.top = `${k * ROW}px`;
    this.el.tabIndex = active ? 0 : -1;
    this.el.setAttribute("aria-rowindex", k + 2);
    this.el.setAttribute("aria-selected", attached(row));
    this.el.dataset.state = row.state;
    this.el.classList.toggle("wb-active", chosen);
    COLUMNS.forEach((column, j) => this.cell(this.cells[j], column.show(row)));
    if (busy) this.cells[0].textContent = "…";
    this.cells[0].title = visible(clip(row.reason ?? "", 1000));
    this.cells[7].title = row.counter ? visible(`counted by ${row.counter}`) : "";
    this.button.textContent = capital(verb(row));
    this.button.setAttribute("aria-label", `${capital(verb(row))} ${visible(clip(row.label, 200))}`);
  }
  cell(node, text) {
    node.textContent = visible(clip(text, 300));  // wider than any column; the detail area has it whole
    node.title = visible(clip(text, 1000));
  }
}

// One variable to fill in, and what its server suggests: a combobox, as the ARIA practices describe it. Not a `datalist`:
// no test can work one by keyboard, and Firefox shows none where the browser's own memory is switched off.
let lists = 0;
class Field {
  constructor(name, needed, value) {
    const called = clip(name, 100), id = `wb-options-${++lists}`;
    this.input = mk("input", { type: "text", role: "combobox", autocomplete: "off", spellcheck: "false", "aria-autocomplete": "list", "aria-expanded": false, "aria-controls": id });
    this.input.required = needed;
    this.input.value = value;
    // On top of the page: were it between the fields, a click on what is below would miss, since the click also closes it.
    this.list = mk("div", { popover: "manual", role: "listbox", id, class: "wb-options", "aria-label": `Suggested for ${visible(called)}` });
    const label = mk("label", {}, needed ? `${called} *` : called);
    label.append(this.input);
    this.el = mk("div", { class: "wb-field" });
    this.el.append(label, this.list);
    this.input.onfocus = () => this.wanted();
    this.input.oninput = () => { this.offer([]); this.changed(this.input.value); this.wanted(); };
    this.input.onblur = () => this.offer([]);
    this.input.onkeydown = event => this.key(event);
    this.list.onmousedown = event => event.preventDefault();  // the field keeps the focus
    this.list.onclick = event => this.take([...this.list.children].indexOf(event.target));
    this.away = event => { if (event.target !== this.list) this.offer([]); };
    Object.assign(this, { values: [], active: -1 });
  }
  offer(values) {
    if (!values.length && !this.values.length) return;
    Object.assign(this, { values, active: -1 });
    this.list.replaceChildren(...values.map((value, i) => mk("div", { role: "option", id: `${this.list.id}-${i}`, "aria-selected": "false" }, clip(value, 300))));
    this.list.togglePopover(values.length > 0);
    if (values.length) this.place();
    window[values.length ? "addEventListener" : "removeEventListener"]("scroll", this.away, true);
    this.input.setAttribute("aria-expanded", values.length > 0);
    this.input.removeAttribute("aria-activedescendant");
  }
  place() {
    const { left, top, bottom, width } = this.input.getBoundingClientRect(), height = this.list.offsetHeight;
    const above = bottom + height > window.innerHeight && top > height;
    Object.assign(this.list.style, { left: `${left}px`, top: `${above ? top - height : bottom}px`, minWidth: `${width}px` });
  }
  mark(k) {
    const options = this.list.children;
    options[this.active]?.setAttribute("aria-selected", "false");
    this.active = (k + options.length) % options.length;
    options[this.active].setAttribute("aria-selected", "true");
    options[this.active].scrollIntoView({ block: "nearest" });
    this.input.setAttribute("aria-activedescendant", options[this.active].id);
  }
  take(k) {
    if (k < 0) return;
    this.input.value = this.values[k];
    this.offer([]);
    this.changed(this.input.value);
  }
  key(event) {
    const open = this.values.length > 0;
    if (event.key === "Enter" && this.active >= 0) this.take(this.active);
    else if (event.key === "Enter") { this.offer([]); this.entered(); }
    else if (event.key === "ArrowDown") open ? this.mark(this.active + 1) : this.wanted();
    else if (event.key === "ArrowUp" && open) this.mark(this.active < 0 ? -1 : this.active - 1);
    else if (event.key === "Escape" && open) this.offer([]);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }
}

// The area beneath the table for the active row: everything whole, fields to fill in, the preview.
class Detail {
  constructor(store, act) {
    Object.assign(this, { store, act, key: null });
    this.el = mk("section", { class: "wb-detail", "aria-label": "Selected row" });
    this.title = mk("div", { class: "wb-title", tabindex: -1 });
    this.facts = mk("div", { class: "wb-facts" });
    // Only what Python has let through: a raster image in a data address, so that nobody is asked for it.
    this.icon = mk("div", { class: "wb-icon" });
    this.about = mk("div", { class: "wb-about", tabindex: 0, role: "region", "aria-label": "URI and description" });
    this.reason = mk("div", { class: "wb-reason", tabindex: -1 });
    this.fields = mk("div", { class: "wb-fields" });
    this.hint = mk("div", { class: "wb-note", role: "status" });
    this.main = mk("button", { type: "button" });
    this.look = mk("button", { type: "button" }, "Preview");
    this.note = mk("div", { class: "wb-note", role: "status" });
    this.text = mk("pre", { class: "wb-text", tabindex: 0, role: "region", "aria-label": "Preview" });
    this.files = mk("div", { class: "wb-buttons wb-files" });
    const buttons = mk("div", { class: "wb-buttons" });
    buttons.append(this.main, this.look);
    this.main.onclick = () => this.act(verb(this.row), this.row);
    this.look.onclick = () => this.act("preview", this.row);
    this.el.append(this.icon, this.title, this.facts, this.reason, this.about, this.fields, this.hint, buttons, this.note, this.text, this.files);
  }
  show(row, busy) {
    this.el.hidden = !row;
    if (!row) { this.key = null; return; }
    this.row = row;
    if (this.key !== row.key) this.fill(row);
    this.title.textContent = visible(clip(row.label, 2000));
    this.facts.textContent = visible([row.kind, row.server, row.mime, bytes(row.size), row.tokens === null ? "" : `${number(row.tokens)} tokens (${row.counter ?? "counter unknown"})`, row.facts].filter(Boolean).join(" · "));
    this.about.textContent = visible([row.uri, row.description].filter(Boolean).join("\n"));
    this.reason.textContent = row.reason ? visible(`Failed: ${row.reason}`) : "";
    if (this.pictured !== row.icon) this.icon.replaceChildren(...(row.icon ? [mk("img", { alt: "", src: row.icon })] : []));
    this.pictured = row.icon;
    this.main.hidden = !attachable(row);
    this.main.textContent = capital(verb(row));
    // Not `disabled`: that would throw the focus out of the widget. The store ignores clicks while busy.
    for (const button of [this.main, this.look]) button.setAttribute("aria-disabled", busy);
    const preview = this.store.preview?.key === row.key ? this.store.preview : null;
    this.note.textContent = busy ? "Asked; waiting for the kernel…" : this.store.working.get(row.key) ? visible(this.store.working.get(row.key)) : preview ? visible([preview.title, preview.note, preview.said].filter(Boolean).join(" · ")) : "";
    this.text.hidden = !preview;
    if (this.drawn !== preview) {
      this.text.textContent = visible(preview?.text);
      this.files.replaceChildren(...(preview?.files ?? []).map((file, i) => this.file(file, i)));
    }
    this.drawn = preview;
  }
  file([name, size, refused], number) {
    if (refused) {
      const line = attachable(this.row) ? this.store.line("read", this.row) : "";
      return mk("span", { class: "wb-note" }, `${name} (${bytes(size)}) ${refused}${line.startsWith("%mcp") ? `: ${line} --save FILE` : ""}`);
    }
    const button = mk("button", { type: "button" }, `Save ${name} (${bytes(size)})`);
    button.onclick = () => this.store.save(number);
    return button;
  }
  fill(row) {
    this.key = row.key;
    if (!this.store.values.has(row.key)) this.store.values.set(row.key, new Map());
    const values = this.store.values.get(row.key), needed = row.required;
    this.hint.textContent = "";
    this.fields.replaceChildren(...row.variables.map(name => {
      const field = new Field(name, needed.includes(name), values.get(name) ?? "");
      field.changed = value => { values.set(name, value); this.store.tell("row"); };
      field.wanted = () => this.store.complete(row, name, answer => this.suggested(field, name, answer));
      field.entered = () => this.act("preview", this.row);
      return field.el;
    }));
  }
  suggested(field, name, { value, options, total }) {
    if (value !== field.input.value || !field.input.matches(":focus")) return;  // it comes too late
    field.offer(options.filter(option => option !== value));
    const more = total === options.length ? "" : total === null ? "; there are more" : ` of ${number(total)}`;
    this.hint.textContent = options.length ? visible(`${options.length}${more} suggested for ${clip(name, 100)}`) : "";
  }
  ask() { [...this.fields.querySelectorAll("input")].find(input => !input.value)?.focus(); }
}

class View {
  constructor(store, el) {
    Object.assign(this, { store, order: [], sort: null, active: 0, chosen: -1, todo: new Set() });
    this.detail = new Detail(store, (kind, row) => this.act(kind, row));
    this.slots = Array.from({ length: POOL }, () => new Slot());
    // Focusable, so that a click on any empty place of ours does not leave the focus with the notebook.
    this.root = mk("div", { class: "wb-catalog", tabindex: -1 });
    this.root.append(this.bar(), this.grid(), this.lines(), this.detail.el);
    el.append(this.root);
    this.schedule("rows");
  }
  bar() {
    const bar = mk("div", { class: "wb-bar" });
    this.query = mk("input", { type: "search", placeholder: "Search: all words must match", "aria-label": "Search the catalog" });
    this.server = mk("select", { "aria-label": "Server" });
    this.kind = mk("select", { "aria-label": "Kind" });
    for (const kind of ["", "resource", "template", "prompt", "tool"]) this.kind.append(new Option(kind ? `${kind}s` : "all kinds", kind));
    this.info = mk("span", { role: "status", "aria-live": "polite", class: "wb-info" });
    this.query.oninput = this.server.onchange = this.kind.onchange = () => { this.chosen = -1; this.view.scrollTop = 0; this.schedule("rows"); };
    this.query.onkeydown = event => { if (event.key === "ArrowDown") { event.preventDefault(); this.move(this.active); } };
    bar.append(this.query, this.server, this.kind, this.info);
    return bar;
  }
  grid() {
    this.view = mk("div", { role: "grid", class: "wb-view", tabindex: -1, "aria-label": "Catalog", "aria-multiselectable": "true", "aria-colcount": COLUMNS.length + 1 });
    this.view.style.setProperty("--wb-columns", WIDTHS);
    this.space = mk("div", { role: "rowgroup", class: "wb-space" });
    this.space.append(...this.slots.map(slot => slot.el));
    this.view.append(this.head(), this.space);
    this.view.onscroll = () => this.schedule("row");
    this.view.onkeydown = event => this.key(event);
    this.space.onclick = event => this.click(event);
    return this.view;
  }
  head() {
    const head = mk("div", { role: "row", class: "wb-row wb-head", "aria-rowindex": 1 });
    this.heads = COLUMNS.map((column, j) => {
      const cell = mk("span", { role: "columnheader", "aria-sort": "none", class: column.right ? "wb-right" : "" });
      const button = mk("button", { type: "button", class: "wb-sort" }, column.name);
      button.onclick = () => {
        this.sort = { j, up: !(this.sort?.j === j && this.sort.up) };
        this.heads.forEach((other, i) => other.setAttribute("aria-sort", i !== j ? "none" : this.sort.up ? "ascending" : "descending"));
        this.schedule("rows");
      };
      cell.append(button);
      return cell;
    });
    head.append(...this.heads, mk("span", { role: "columnheader", "aria-label": "action" }));
    return head;
  }
  lines() {
    const bar = mk("div", { class: "wb-lines" });
    this.line = ["attach", "read"].map(() => mk("code", { tabindex: 0, "aria-label": "Magic line that does the same" }));
    this.none = mk("span", { class: "wb-note" });
    bar.append(...this.line, this.none);
    return bar;
  }

  // At most one redraw a frame, however many messages arrive.
  schedule(what) {
    this.todo.add(what);
    this.frame ??= requestAnimationFrame(() => {
      this.frame = undefined;
      if (this.todo.has("rows")) this.arrange();
      this.todo.clear();
      this.draw();
    });
  }
  close() { cancelAnimationFrame(this.frame); }

  arrange() {
    const { rows, servers } = this.store, words = this.query.value.toLowerCase().split(/\s+/).filter(Boolean);
    this.options([...servers]);
    const server = this.server.value === "" ? null : [...servers][this.server.value - 1], kind = this.kind.value;
    this.order = [];
    rows.forEach((row, i) => {
      if ((server === null || row.server === server) && (!kind || row.kind === kind) && words.every(w => row.search.includes(w))) this.order.push(i);
    });
    if (this.sort) this.arrangeBy(COLUMNS[this.sort.j], this.sort.up ? 1 : -1);
    this.active = Math.max(0, this.order.indexOf(this.chosen));
  }
  arrangeBy(column, sign) {
    const by = column.by ?? column.show, value = [];
    for (const i of this.order) { const v = by(this.store.rows[i]); value[i] = typeof v === "string" ? v.toLowerCase() : v; }
    // Unknown goes last both ways.
    const last = v => v === null || v === "";
    this.order.sort((a, b) => last(value[a]) || last(value[b]) ? last(value[a]) - last(value[b]) || a - b
      : value[a] < value[b] ? -sign : value[a] > value[b] ? sign : a - b);
  }
  options(servers) {
    if (servers.join("\n") === this.names) return;
    this.names = servers.join("\n");
    const kept = this.server.value;
    this.server.replaceChildren(new Option("all servers", ""), ...servers.map((name, i) => new Option(visible(clip(name, 60)), i + 1)));
    this.server.value = kept;
    if (this.server.selectedIndex < 0) this.server.selectedIndex = 0;
  }

  get row() { return this.chosen < 0 ? null : this.store.rows[this.chosen]; }
  draw() {
    const { store, order, active } = this, shown = Math.min(SHOWN, Math.max(3, order.length));
    const inside = this.view.contains(document.activeElement) && !document.activeElement.closest(".wb-head");
    this.view.style.setProperty("--wb-height", `${(shown + 1) * ROW}px`);
    this.space.style.height = `${order.length * ROW}px`;
    const top = Math.max(0, Math.floor(this.view.scrollTop / ROW) - SPARE), end = Math.min(order.length, top + POOL);
    const used = new Set();
    for (let k = top; k < end; k++) {
      const row = store.rows[order[k]], slot = this.slots[k % POOL];
      slot.show(k, row, k === active, order[k] === this.chosen, store.busy.has(row.key));
      used.add(slot);
    }
    for (const slot of this.slots) if (!used.has(slot)) slot.hide();
    this.view.setAttribute("aria-rowcount", order.length + 1);
    // The focus stays with the active row, not with the element that now shows another one.
    if (inside) this.focus();
    this.tell();
  }
  focus() {
    const slot = this.slots[this.active % POOL];
    const target = slot.k === this.active && !slot.el.hidden ? slot.el : this.view;
    if (document.activeElement !== target) target.focus({ preventScroll: true });
  }
  tell() {
    const { store, order, row } = this;
    const count = store.total === null || store.held < store.total ? `Loading… ${number(store.held)} rows` : `${number(order.length)} of ${number(store.total)} ${store.noun}`;
    const info = [count, visible(store.notice)].filter(Boolean).join(" · ");
    if (this.info.textContent !== info) this.info.textContent = info;
    const verbs = !row || row.kind === "tool" ? [] : row.kind === "prompt" ? ["prompt"] : [verb(row), "read"];
    const lines = verbs.map(v => store.line(v, row));
    this.line.forEach((node, i) => {
      node.hidden = i >= lines.length || (i > 0 && lines[i] === lines[0]);
      if (node.textContent !== lines[i]) node.textContent = lines[i] ?? "";
    });
    this.none.hidden = lines.length > 0;
    const hint = `Enter or click: preview.${store.attachables ? " Space: attach or detach." : ""}`;
    if (this.none.textContent !== hint) this.none.textContent = hint;
    this.detail.show(row, row !== null && store.busy.has(row.key));
  }

  move(k) {
    if (!this.order.length) return;
    this.active = Math.max(0, Math.min(this.order.length - 1, k));
    this.chosen = this.order[this.active];
    const y = this.active * ROW, height = this.view.clientHeight - ROW;
    if (y < this.view.scrollTop) this.view.scrollTop = y;
    else if (y + ROW > this.view.scrollTop + height) this.view.scrollTop = y + ROW - height;
    this.draw();
    this.focus();
  }
  act(kind, row) {
    // A prompt with nothing filled in is described instead.
    if (attachable(row) && kind !== "detach" && this.store.missing(row).length) this.detail.ask();
    else this.store.act(kind, row);
  }
  click(event) {
    const slot = this.slots.find(s => s.el.contains(event.target));
    if (!slot || slot.k < 0) return;
    this.move(slot.k);
    if (event.target === slot.button) this.act(verb(this.row), this.row);
    else this.open();
  }
  open() {
    if (this.row.variables.some(name => !this.store.filled(this.row)[name])) this.detail.ask();
    else if (this.store.preview?.key !== this.row.key) this.act("preview", this.row);
  }
  key(event) {
    if (event.target.closest(".wb-head") || event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.floor(this.view.clientHeight / ROW) - 1, k = this.active;
    const to = { ArrowDown: k + 1, ArrowUp: k - 1, PageDown: k + page, PageUp: k - page, Home: 0, End: this.order.length - 1 }[event.key];
    if (to !== undefined) this.move(to);
    else if (event.key === " " || event.key === "Enter") {
      this.move(k);
      if (!this.row) return;
      if (event.key === "Enter") this.open();
      else if (attachable(this.row)) this.act(verb(this.row), this.row);
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }
}

// A saved widget view would be an error message to whoever opens the notebook later. So the output that is saved is the
// static table, and the live one stands in its place for as long as the model lives.
function settle(store, home) {
  const found = document.getElementsByClassName(home), views = new Map();
  const look = () => {
    for (const node of found) {
      if (views.has(node)) continue;
      const el = mk("div"), view = store.open(el);
      views.set(node, { el, view });
      swap(node, true);
      node.append(el);
      store.send({ kind: "settled" });
    }
  };
  // JupyterLab's styles for documents would reach into the widget.
  const swap = (node, live) => {
    for (const part of node.children) part.hidden = live;
    node.closest(".jp-RenderedHTML")?.classList.toggle("jp-RenderedHTMLCommon", !live);
  };
  const observer = new MutationObserver(look);
  observer.observe(document.body, { childList: true, subtree: true });
  look();
  return () => {
    observer.disconnect();
    for (const [node, { el, view }] of views) {
      store.close(view);
      el.remove();
      swap(node, false);
    }
    views.clear();
  };
}

export default () => {
  const store = new Store();
  return {
    // Here and not in render: what is sent before the display would be lost.
    initialize({ model }) {
      store.send = message => model.send(message);
      model.on("msg:custom", (message, buffers) => store.receive(message, buffers));
      store.wait();
      const home = model.get("home"), leave = home ? settle(store, home) : () => {};
      model.on("comm_live_update", leave);  // the kernel was restarted: nobody would answer a click
      return () => { clearTimeout(store.timer); leave(); };
    },
    render({ el }) {
      const view = store.open(el);
      return () => store.close(view);
    },
  };
};
