"use strict";
const $ = (id) => document.getElementById(id);
const path = (...names) => "/v1/" + names.map(encodeURIComponent).join("/");

/** An element with properties and children; text is only ever text. */
function el(tag, props = {}, ...children) {
  const node = Object.assign(document.createElement(tag), props);
  node.append(...children.filter((child) => child !== null));
  return node;
}

const button = (text, onclick, className = "") => el("button", { type: "button", onclick, className }, text);

function say(text) {
  $("alert").hidden = !text;
  $("alert").firstElementChild.textContent = text;
}
$("alert").lastElementChild.onclick = () => say("");

const token = () => sessionStorage.getItem("token");

/** The answer to the one question for a token, however many calls were refused meanwhile. */
let asking = null;
function askForToken() {
  asking ??= new Promise((resolve) => {
    const dialog = $("token-dialog");
    dialog.querySelector("form").onsubmit = (event) => {
      event.preventDefault();
      sessionStorage.setItem("token", $("token").value);
      dialog.close();
    };
    dialog.onclose = () => {
      const given = $("token").value !== "";
      $("token").value = "";
      asking = null;
      resolve(given);
    };
    dialog.showModal();
  });
  return asking;
}

async function ask(method, url, body) {
  const headers = {};
  const used = token();
  if (used) headers.authorization = "Bearer " + used;
  if (body !== undefined) headers["content-type"] = "application/json";
  const answer = await fetch(url, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) })
    .catch(() => { throw new Error("the server does not respond"); });
  // Another call may have got a new token while this one was under way.
  if (answer.status === 401 && (token() !== used || (await askForToken()))) return ask(method, url, body);
  if (answer.ok) return answer;
  const { error } = await answer.json().catch(() => ({}));
  const text = error?.message ?? error ?? answer.statusText;
  throw new Error([error?.path, text].filter(Boolean).join(": ") + (error?.hint ? ` (${error.hint})` : ""));
}

async function act(method, url, body) {
  try {
    await ask(method, url, body);
    say("");
    await refresh();
    return true;
  } catch (error) {
    say(error.message);
    return false;
  }
}

let types = [];
/** The proxies' cards, by name: kept, so that a form that is being filled in stays, whatever happens meanwhile. */
const cards = new Map();

async function refresh() {
  const [{ proxies }, chaos] = await Promise.all(
    ["/v1/proxies", "/v1/chaos"].map(async (url) => (await ask("GET", url)).json()),
  );
  const count = chaos.active_rules;
  const word = chaos.enabled ? `Chaos is on: ${count} ${count === 1 ? "toxic" : "toxics"}` : "Chaos is off: all toxics are disabled";
  $("switch-state").textContent = word + (chaos.reason ? ` (${chaos.by ?? "somebody"}: ${chaos.reason})` : "");
  $("switch-state").className = chaos.enabled && count ? "hot" : chaos.enabled ? "quiet" : "on";
  $("switch").hidden = false;
  $("switch").textContent = chaos.enabled ? "Stop every toxic" : "Enable toxics";
  $("switch").className = chaos.enabled ? "stop" : "main";
  $("switch").onclick = async () => {
    const reason = $("why").value.trim() || undefined;
    if (await act("POST", `/v1/chaos/${chaos.enabled ? "disable" : "enable"}`, { operator: "web page", reason })) $("why").value = "";
  };
  for (const name of cards.keys()) if (!proxies.some((proxy) => proxy.name === name)) cards.delete(name);
  const nodes = proxies.map(card);
  if (!proxies.length) nodes.push(el("p", { className: "help" }, "No proxies yet."));
  // What is in its place already is not touched, or it would lose the focus.
  nodes.forEach((node, i) => $("proxies").children[i] === node || $("proxies").insertBefore(node, $("proxies").children[i] ?? null));
  while ($("proxies").childElementCount > nodes.length) $("proxies").lastChild.remove();
  if (!proxies.length) $("create").open = true;
}

function card(proxy) {
  const shown = JSON.stringify(proxy);
  const old = cards.get(proxy.name);
  if (old?.shown === shown) return old.node;
  const toxics = proxy.toxics ?? [];
  const here = path("proxies", proxy.name);
  const leads = proxy.upstream || Object.entries(proxy.map ?? {}).map(([host, target]) => `${host}=${target}`).join(", ");
  const head = el("div", { className: "row head" },
    el("h3", {}, proxy.name),
    el("span", { className: "tag" }, protocol(proxy)),
    el("code", { className: "grow" }, (proxy.enabled ? proxy.listen : `${proxy.listen} (disabled)`) + (leads ? ` → ${leads}` : "")),
    button(proxy.enabled ? "Disable" : "Enable", () => act("PATCH", here, { enabled: !proxy.enabled })),
    button("Delete", () => confirm(`Delete ${proxy.name}?`) && act("DELETE", here)),
  );
  const titles = ["toxic", "type", "stream", "toxicity", "attributes", ""].map((title) => el("th", {}, title));
  const list = toxics.length
    ? el("table", { className: "toxics" }, el("thead", {}, el("tr", {}, ...titles)), el("tbody", {}, ...toxics.map((toxic) => line(proxy, toxic))))
    : el("p", { className: "help" }, "No toxics: everything passes untouched.");
  const node = old?.node ?? el("article", {}, head, list, adder(proxy));
  if (old) {
    node.children[0].replaceWith(head);
    node.children[1].replaceWith(list);
  }
  node.className = proxy.enabled ? "" : "off";
  cards.set(proxy.name, { shown, node });
  return node;
}

const protocol = ({ protocol, upstream }) => protocol ?? (upstream?.includes("://") ? "http" : "tcp");

function line(proxy, toxic) {
  const here = path("proxies", proxy.name, "toxics", toxic.name);
  const enabled = toxic.enabled !== false;
  const word = (value) => typeof value === "string" ? value : JSON.stringify(value);
  const rest = Object.entries(toxic.attributes).filter(([, value]) => value !== null).map(([name, value]) => `${name}=${word(value)}`);
  for (const name of ["match", "budget", "window"]) if (toxic[name]) rest.push(`${name}=${word(toxic[name])}`);
  return el("tr", { className: enabled ? "" : "off" },
    el("td", {}, toxic.name),
    el("td", {}, toxic.type),
    el("td", {}, toxic.stream),
    el("td", {}, `${Math.round(toxic.toxicity * 1000) / 10} %`),
    el("td", { className: "mono wide" }, (enabled ? "" : "paused ") + rest.join(" ")),
    el("td", {},
      button(enabled ? "Pause" : "Resume", () => act("PATCH", here, { enabled: !enabled })),
      button("Remove", () => act("DELETE", here)),
    ),
  );
}

function adder(proxy) {
  const details = el("details", {}, el("summary", {}, "Add a toxic"));
  details.ontoggle = () => details.open && !details.querySelector("form") && details.append(form(proxy, () => { details.open = false; }));
  return details;
}

/** A form for any type of toxic, made of the type's schema. It begins as the type's example. */
function form(proxy, done) {
  const fitting = types.filter(({ level }) => protocol(proxy) !== "tcp" || level === "bytes" || level === "connect");
  const kind = el("select", { name: "type" }, ...[...new Set(fitting.map(({ level }) => level))].map((level) => el("optgroup", { label: level },
    ...fitting.filter((type) => type.level === level).map(({ type }) => el("option", { value: type }, type)))));
  const help = el("p", { className: "help" });
  const fields = el("div", { className: "fields" });
  const chosen = () => types.find(({ type }) => type === kind.value);
  const show = () => {
    const { summary, schema, example } = chosen();
    help.textContent = summary;
    fields.replaceChildren(...Object.entries(schema.properties ?? {}).map(([name, property]) => field(name, property, example.attributes?.[name])));
    fields.append(...chosen().level === "bytes" ? [] : [json("match", 'such as {"operation": "chat"}')], json("budget", 'such as {"times": 2}'));
  };
  kind.onchange = show;
  const node = el("form", {},
    el("div", { className: "fields" },
      el("label", {}, "Type", kind),
      el("label", {}, "Name", el("input", { name: "name", placeholder: "TYPE_STREAM", autocomplete: "off" })),
      el("label", {}, "Stream", el("select", { name: "stream" }, ...["downstream", "upstream"].map((value) => el("option", { value }, value))),
        el("small", {}, "Downstream is the answer, upstream the request.")),
      el("label", {}, "Toxicity", el("input", { name: "toxicity", type: "number", min: 0, max: 1, step: "any", defaultValue: 1, required: true }),
        el("small", {}, "The share that it strikes, 0 to 1.")),
    ), help, fields, el("button", { className: "main" }, "Add"));
  if (fitting.length) show();
  node.onsubmit = async (event) => {
    event.preventDefault();
    try {
      const body = { type: kind.value, name: node.elements.name.value, stream: node.elements.stream.value,
        toxicity: Number(node.elements.toxicity.value), attributes: {} };
      for (const part of fields.children) {
        const value = part.read();
        if (value !== undefined) (part.outside ? body : body.attributes)[part.name] = value;
      }
      if (await act("POST", path("proxies", proxy.name, "toxics"), body)) node.reset(), show(), done();
    } catch (error) { say(error.message); }
  };
  return node;
}

/** What is not an attribute: JSON, for those who need it. */
function json(name, placeholder) {
  const input = el("input", { placeholder, autocomplete: "off", className: "mono" });
  return Object.assign(el("label", {}, name, input), { name, outside: true, read: () => read(name, input.value, false) });
}

const kinds = (property) => [property.type ?? []].flat();
const branches = (property) => [property, ...[property.oneOf ?? [], property.anyOf ?? []].flat().flatMap(branches)];

/** The words that a property takes, with what each means, if it takes nothing but words. */
function choices(property) {
  const all = branches(property);
  if (all.some((each) => kinds(each).some((kind) => kind === "object" || kind === "array"))) return [];
  return all.flatMap((each) => [each.const ?? each.enum ?? []].flat().map((word) => [word, each.description ?? ""]))
    .filter(([word]) => typeof word === "string");
}

/** The keys of a property that is an object with exactly one of them, such as a position. */
function keys(property) {
  const objects = branches(property).filter((each) => kinds(each).includes("object"));
  return objects.length > 1 && objects.every(({ required }) => required?.length === 1)
    ? objects.map((each) => [each.required[0], each.description ?? each.properties[each.required[0]].description ?? ""]) : [];
}

function select(options, value) {
  const node = el("select", {}, el("option", { value: "" }, "default"), ...options.map(([word]) => el("option", { value: word }, word)));
  node.value = value ?? "";
  return node;
}

/** A labelled control for one attribute, filled in as in the example; left empty it means the default. */
function field(name, property, example) {
  const text = (property.description ?? "").replaceAll("\n", " ");
  // What is the default anyway need not be said.
  if (JSON.stringify(example) === JSON.stringify(property.default)) example = undefined;
  const unit = property["x-unit"] && property["x-unit"] !== name ? ` (${property["x-unit"]})` : "";
  const help = el("small", {}, text);
  const words = choices(property), places = keys(property);
  const plain = kinds(property).includes("boolean") ? [["true", ""], ["false", ""]] : words;
  if (plain.length) {
    const input = select(plain, example?.toString());
    const explain = () => { help.textContent = [text, words.find(([word]) => word === input.value)?.[1]].filter(Boolean).join(" ").replaceAll("\n", " "); };
    input.onchange = explain;
    explain();
    return Object.assign(el("label", {}, name, input, help), { name, read: () => read(name, input.value, words.length > 0) });
  }
  if (places.length) {
    const [[place, at]] = Object.entries(example ?? { "": "" });
    const key = select(places, place), input = el("input", { value: at, autocomplete: "off", ariaLabel: `${name}, how far` });
    key.ariaLabel = name;
    const explain = () => {
      input.disabled = !key.value;
      help.textContent = (places.find(([word]) => word === key.value)?.[1] || text).replaceAll("\n", " ");
    };
    key.onchange = explain;
    explain();
    const value = () => {
      if (!key.value) return undefined;
      if (!input.value.trim()) throw new Error(`${name}: how many ${key.value}?`);
      return { [key.value]: read(name, input.value, false) };
    };
    return Object.assign(el("div", { className: "label" }, name, el("div", { className: "pair" }, key, input), help), { name, read: value });
  }
  const shown = example === undefined || example === null ? "" : typeof example === "string" ? example : JSON.stringify(example);
  const preset = property.default === undefined || property.default === null ? "" : `default ${JSON.stringify(property.default)}`;
  const input = el("input", { value: shown, placeholder: preset, autocomplete: "off" });
  return Object.assign(el("label", {}, name + unit, input, help), { name, read: () => read(name, input.value, kinds(property).join() === "string") });
}

/** What a control holds: text where text is meant, JSON where it reads as JSON, else text. */
function read(name, value, literally) {
  const text = value.trim();
  if (text === "") return undefined;
  if (literally) return text;
  try { return JSON.parse(text); } catch {
    if (/^[[{]/.test(text)) throw new Error(`${name}: this is no JSON`);
    return text;
  }
}

const create = $("create").querySelector("form");
create.elements.protocol.onchange = ({ target }) => {
  create.elements.upstream.disabled = target.value === "forward";
  create.elements.upstream.placeholder = target.value === "forward" ? "the one that the client names" : "sim://openai, a URL, or host:port";
};
create.onsubmit = async (event) => {
  event.preventDefault();
  const given = [...new FormData(create)].filter(([, value]) => value !== "");
  if (!await act("POST", "/v1/proxies", Object.fromEntries(given))) return;
  create.reset();
  create.elements.upstream.disabled = false;
  $("create").open = false;
};
$("reset").onclick = () => confirm("Enable every proxy and remove every toxic?") && act("POST", "/reset");
