// One running turn: its rows, its answer as it streams, questions to a person, and Stop.
// Servers and models wrote what is shown here: it gets into the page as text, never as markup.

// -- the same in catalog.js; a test holds the two copies together
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

const VERDICTS = { approve: "approved", deny: "denied", accept: "accepted", decline: "declined", cancel: "cancelled" };
const STATUS = { open: "running", ok: "✓", error: "✗ error", refused: "⊘ refused", cancelled: "◼ cancelled", waiting: "? waiting" };
const time = seconds => typeof seconds !== "number" ? "" : seconds < 1 ? `${(seconds * 1000).toFixed(0)} ms` : `${seconds.toFixed(2)} s`;

// A question: what would run, whole, and two answers. It never takes the focus, so that no key answers it by accident.
class Card {
  constructor(event, send) {
    Object.assign(this, { id: event.id, send });
    this.build(event);
  }
  build({ title, server, tool, arguments: given, why }) {
    this.el = mk("section", { class: "wb-ask", role: "group", "aria-label": visible(clip(`Approval: ${tool} of ${server}`, 300)) });
    const text = String(given ?? "");
    this.reason = mk("input", { type: "text", placeholder: "reason, told to the model (optional)", "aria-label": "Reason for denying" });
    this.reason.onkeydown = event => { if (event.key === "Enter") this.answer("deny"); };
    this.yes = this.button("Approve", "approve");
    this.no = this.button("Deny", "deny");
    this.all = [this.yes, this.no];
    this.state = mk("span", { class: "wb-note", role: "status" });
    this.buttons = mk("div", { class: "wb-buttons" });
    this.buttons.append(this.yes, this.no, this.reason);
    this.el.append(
      mk("div", { class: "wb-title", tabindex: -1 }, clip(String(title ?? ""), 2000)),
      this.facts({ server, tool, why }),
      mk("div", { class: "wb-note" }, `Arguments, ${text.length.toLocaleString("en")} characters:`),
      mk("pre", { class: "wb-text", tabindex: 0, role: "region", "aria-label": "Arguments" }, text),
      this.buttons, this.state,
    );
  }
  facts(facts) {
    const list = mk("dl", { class: "wb-facts" });
    for (const [name, value] of Object.entries(facts)) if (value) list.append(mk("dt", {}, name), mk("dd", { tabindex: -1 }, value));
    return list;
  }
  button(text, verdict) {
    const button = mk("button", { type: "button", class: `wb-${verdict}` }, text);
    button.onclick = () => this.answer(verdict);
    return button;
  }
  // `aria-disabled` and not `disabled`, which would throw the focus out of the widget.
  answer(verdict) {
    if (this.sent) return;
    this.sent = true;
    this.state.classList.remove("wb-failed");
    this.dim(true);
    this.state.textContent = `Sent: ${VERDICTS[verdict]}; waiting for the kernel…`;
    this.send(this.message(verdict));
  }
  message(verdict) { return { kind: verdict, id: this.id, reason: verdict === "deny" ? this.reason.value : "" }; }
  dim(on) { for (const button of this.all) button.setAttribute("aria-disabled", on); }
  failed(text) {
    this.sent = false;
    this.dim(false);
    this.state.classList.add("wb-failed");
    this.state.textContent = visible(`That failed: ${clip(text, 2000)}`);
  }
  settled(verdict) {
    this.buttons.hidden = true;
    this.el.classList.add("wb-settled");
    this.state.textContent = visible(VERDICTS[verdict] ?? verdict);
  }
}

// What a server asks: a form to fill in, a page to open, a model to run. The labels and choices are the server's, the rest ours.
class Form extends Card {
  build({ title, server, facts, text, url, shown, host, yes, fields }) {
    this.el = mk("section", { class: "wb-ask", role: "group", "aria-label": visible(clip(`Request of the server ${server}`, 300)) });
    this.fields = (fields ?? []).map(field => this.field(field));
    this.state = mk("span", { class: "wb-note", role: "status" });
    this.buttons = mk("div", { class: "wb-buttons" });
    this.all = [url && this.link(url, host) || this.button(yes, "accept"), this.button("Decline", "decline"), this.button("Cancel", "cancel")];
    this.buttons.append(...this.all);
    const list = mk("div", { class: "wb-form" });
    list.append(...this.fields.map(field => field.el));
    this.el.append(mk("div", { class: "wb-title", tabindex: -1 }, String(title ?? "")), this.facts(Object.fromEntries(facts)));
    if (url) this.el.append(this.address(shown ?? url, host));
    if (text) this.el.append(mk("pre", { class: "wb-text", tabindex: 0, role: "region", "aria-label": "What the model would get" }, text));
    this.el.append(list, this.buttons, this.state);
  }
  // The host decides whose page it is, so it stands out of an address that may say many other things.
  address(url, host) {
    const line = mk("code", { class: "wb-url", tabindex: -1 }), start = url.indexOf("//") + 2, end = start + host.length;
    line.append(visible(url.slice(0, start)), mk("b", {}, url.slice(start, end)), visible(url.slice(end)));
    return line;
  }
  // A click on it is the consent; nothing is opened or fetched before. Where the browser reads another host out of the address
  // than we have shown, there is no link.
  link(url, host) {
    if (!URL.canParse(url) || new URL(url).hostname !== host) return null;
    const link = mk("a", { class: "wb-accept", href: url, target: "_blank", rel: "noopener noreferrer", tabindex: 0 }, `Open ${host}`);
    link.onclick = () => this.answer("accept");
    return link;
  }
  field({ label, about, required, type, choices, value }) {
    const el = mk("div", { class: "wb-field" }), id = `wb-${crypto.randomUUID?.() ?? Math.random()}`;
    const name = mk("label", { for: id }, clip(label, 200));
    if (required) name.append(mk("b", { title: "required" }, " *"));
    const input = type === "array" && choices.length ? this.boxes(label, choices, value) : type === "boolean" || choices.length ? this.select(type, choices, value) : this.text(type, value);
    input.el.id = id;
    if (required) input.el.setAttribute("aria-required", "true");
    el.append(name, input.el);
    if (about) el.append(mk("span", { class: "wb-note" }, clip(about, 2000)));
    return { el, read: input.read };
  }
  text(type, value) {
    const el = mk("input", { type: "text", inputmode: { integer: "numeric", number: "decimal" }[type] ?? "text", autocomplete: "off" });
    el.value = value;
    return { el, read: () => el.value };
  }
  select(type, choices, value) {
    const el = mk("select"), titles = type === "boolean" ? ["yes", "no"] : choices, values = type === "boolean" ? ["true", "false"] : choices.map((_, i) => i);
    el.append(new Option("–", ""), ...titles.map((title, i) => new Option(visible(clip(title, 200)), values[i])));
    el.value = value;
    return { el, read: () => el.value };
  }
  boxes(label, choices, value) {
    const el = mk("div", { class: "wb-buttons", role: "group", "aria-label": visible(clip(label, 200)) });
    const boxes = choices.map((title, i) => {
      const line = mk("label"), box = mk("input", { type: "checkbox" });
      box.checked = value.includes(i);
      line.append(box, visible(clip(title, 200)));
      el.append(line);
      return box;
    });
    return { el, read: () => boxes.flatMap((box, i) => box.checked ? [i] : []) };
  }
  message(verdict) { return { kind: verdict, id: this.id, values: verdict === "accept" ? this.fields.map(field => field.read()) : [] }; }
  settled(verdict) {
    super.settled(verdict);
    for (const input of this.el.querySelectorAll("input, select")) input.disabled = true;
  }
}

class View {
  constructor(el, send) {
    Object.assign(this, { send, rows: new Map(), cards: new Map() });
    this.root = mk("div", { class: "wb-trace", tabindex: -1 });
    el.append(this.root);
    this.reset();
  }
  reset() {
    this.rows.clear();
    this.cards.clear();
    this.list = mk("ol", { class: "wb-rows", role: "log", "aria-live": "polite", "aria-label": "Trace" });
    this.asks = mk("div", { class: "wb-asks", "aria-live": "assertive" });
    this.answer = mk("div", { class: "wb-answer", tabindex: 0, role: "region", "aria-label": "Answer so far" });
    this.answer.hidden = true;
    this.text = this.answer.appendChild(document.createTextNode(""));
    this.stop = mk("button", { type: "button" }, "Stop");
    this.stop.onclick = () => { this.send({ kind: "stop" }); this.note.textContent = "Stopping…"; };
    this.note = mk("span", { class: "wb-note", role: "status" });
    const bar = mk("div", { class: "wb-buttons wb-bar" });
    bar.append(this.stop, this.note);
    this.root.replaceChildren(bar, this.list, this.asks, this.answer);
  }
  apply(event) { this[{ row: "onRow", text: "onText", ask: "onAsk", form: "onAsk", answered: "onAnswered" }[event.kind]]?.(event); }

  onRow({ id, depth, label, actor, status, seconds, figures }) {
    let item = this.rows.get(id);
    if (!item) {
      const el = mk("li", { class: "wb-row" });
      item = { el, cells: ["wb-status", "wb-actor", "wb-label", "wb-figures", "wb-time"].map(name => mk("span", { class: name })) };
      el.append(...item.cells);
      this.rows.set(id, item);
      this.list.append(el);
    }
    item.el.dataset.status = status;
    item.el.style.setProperty("--wb-depth", Math.min(Number(depth) || 0, 12));
    [STATUS[status] ?? status, actor, label, figures, time(seconds)].forEach((value, i) => this.cell(item.cells[i], String(value ?? "")));
  }
  cell(node, text) {
    const shown = visible(clip(text, 300));
    if (node.textContent === shown) return;
    node.textContent = shown;
    node.title = visible(clip(text, 1000));
  }
  onText({ text }) {
    this.answer.hidden = false;
    const end = this.answer.scrollHeight - this.answer.scrollTop - this.answer.clientHeight < 40;
    this.text.appendData(visible(text));
    if (end) this.answer.scrollTop = this.answer.scrollHeight;
  }
  onAsk(event) {
    const card = new (event.kind === "form" ? Form : Card)(event, this.send), old = this.cards.get(event.id);
    this.cards.set(event.id, card);
    if (old) old.el.replaceWith(card.el);
    else this.asks.append(card.el);
  }
  onAnswered({ id, verdict }) {
    const card = this.cards.get(id);
    if (!card) return;
    const inside = card.el.contains(document.activeElement);
    card.settled(verdict);
    // Not to the next question: the key that answered this one must not answer that one.
    if (inside) this.root.focus({ preventScroll: true });
  }
  onFailed({ id, text }) {
    const card = this.cards.get(id);
    if (card) card.failed(text);
    else this.note.textContent = visible(`That failed: ${clip(String(text ?? ""), 2000)}`);
  }
}

export default () => {
  const views = new Set();
  let seen = [], timer;
  return {
    // Here and not in render: what is sent before the display would be lost.
    initialize({ model }) {
      model.on("msg:custom", message => {
        if (message.kind === "failed") for (const view of views) view.onFailed(message);
        if (message.kind !== "batch") return;
        clearTimeout(timer);
        if (message.from > seen.length) return hello();
        if (message.from === 0) {
          seen = [];
          for (const view of views) view.reset();
        }
        seen.push(...message.events);
        for (const view of views) message.events.forEach(event => view.apply(event));
      });
      // A reloaded page has a new model that knows nothing, or not the beginning, and asks for all of it.
      const hello = () => model.send({ kind: "hello" });
      timer = setTimeout(hello, 1000);
      return () => clearTimeout(timer);
    },
    render({ model, el }) {
      const view = new View(el, message => model.send(message));
      seen.forEach(event => view.apply(event));
      views.add(view);
      return () => views.delete(view);
    },
  };
};
