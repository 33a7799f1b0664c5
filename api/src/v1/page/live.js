/** The latest exchanges: those under way are asked for again until they have ended. */
const SHOWN = 50, rows = new Map();
let since = 0;

async function exchanges() {
  for (;;) {
    const page = await (await ask("GET", `/v1/exchanges?since=${since}`)).json();
    let settled = page.next;
    for (const exchange of page.exchanges) {
      if (!exchange.ending) settled = Math.min(settled, exchange.id - 1);
      const row = exchangeLine(exchange), old = rows.get(exchange.id);
      rows.set(exchange.id, row);
      if (old) old.replaceWith(row);
      else $("exchanges").prepend(row);
    }
    for (const id of [...rows.keys()].slice(0, -SHOWN)) rows.get(id).remove(), rows.delete(id);
    $("no-exchanges").hidden = rows.size > 0;
    if (settled <= since) return;
    since = settled;
    if (page.exchanges.some(({ ending }) => !ending)) return;
  }
}

function exchangeLine({ id, started, proxy, method, host, path, status, duration_ms, bytes_out, events, toxics, ending }) {
  const planned = toxics.map(({ name, struck, state, reason }) => struck
    ? el("span", { className: "hot" }, `${name} struck `)
    : state === "armed" ? el("span", { className: "quiet" }, `${name} armed `)
    : el("span", { className: "quiet" }, `${name} did not${reason ? `: ${reason}` : ""} `));
  const cells = [id, new Date(started).toLocaleTimeString(), proxy, [method, `${host}${path}`], status ?? "–",
    duration_ms == null ? "–" : `${Math.round(duration_ms)} ms`, `${bytes_out} B${events ? `, ${events} events` : ""}`,
    ending ? `${ending.how} by ${ending.side}` : "under way", planned];
  const row = el("tr", {}, ...cells.map((cell) => Array.isArray(cell) && typeof cell[0] === "string"
    ? el("td", { className: "mono wide" }, cell.join(" "))
    : el("td", {}, ...[cell].flat())));
  if (status >= 400) row.children[4].className = "hot";
  return row;
}

/** Asks again as long as somebody looks. */
async function watch() {
  for (;;) {
    if (!document.hidden) await exchanges().catch(() => { /* The feed says what is wrong with the server. */ });
    await new Promise((resolve) => setTimeout(resolve, 1000));
  }
}

/** Follows the feed; fetch, since an EventSource cannot send a token. */
async function follow() {
  for (let wait = 500, lost = false; ; wait = Math.min(wait * 2, 10000)) {
    try {
      const reader = (await ask("GET", "/v1/events")).body.pipeThrough(new TextDecoderStream()).getReader();
      if (lost) {
        say("");
        lost = false;
        // The server may be another one, whose exchanges are numbered anew.
        since = 0;
        rows.clear();
        $("exchanges").replaceChildren();
      }
      await refresh();
      let rest = "", due = 0;
      for (let piece; !(piece = await reader.read()).done;) {
        wait = 500;
        const blocks = (rest + piece.value).split("\n\n");
        rest = blocks.pop();
        const news = blocks.map((block) => /^data: (.*)$/m.exec(block)?.[1]).filter(Boolean).map((data) => JSON.parse(data));
        news.forEach(note);
        // Toxics that apply and exchanges change no proxy.
        if (!due && news.some(({ event }) => !/^(toxic|exchange)\./.test(event)))
          due = setTimeout(() => { due = 0; refresh().catch((error) => say(error.message)); }, 300);
      }
      throw new Error("the server closed the feed");
    } catch (error) {
      lost = true;
      say(`${error.message}; trying again`);
    }
    await new Promise((resolve) => setTimeout(resolve, wait));
  }
}

function note({ at, event, detail, missed }) {
  // Exchanges have their own table.
  if (event?.startsWith("exchange.")) return;
  const { proxy, toxic, type, exchange, connection, reason, enabled, by } = detail ?? {};
  const where = exchange ? `, exchange ${exchange}` : connection ? `, connection ${connection}` : "";
  const why = reason ? `: ${reason}` : "";
  const said = {
    "toxic.struck": () => `${proxy}: ${toxic} (${type}) was applied${where}`,
    "toxic.passed": () => `${proxy}: ${toxic} (${type}) was not applied${why}${where}`,
    toxic: () => `${proxy}: toxics changed`,
    proxy: () => `${proxy}: proxy changed${enabled === false ? ", it is disabled" : ""}`,
    chaos: () => `chaos is ${enabled ? "on" : "off"}${by ? ` by ${by}` : ""}${why}`,
  }[event];
  const text = missed ? `… ${missed} missed` : `${new Date(at).toLocaleTimeString()} ${said ? said() : `${event} ${JSON.stringify(detail)}`}`;
  $("feed").hidden = false;
  $("no-events").hidden = true;
  $("feed").prepend(el("li", {}, text));
  while ($("feed").childElementCount > 200) $("feed").lastChild.remove();
}

(async () => {
  try {
    types = (await (await ask("GET", "/v1/toxics")).json()).toxics;
    await refresh();
  } catch (error) { say(error.message); }
  follow();
  watch();
})();
