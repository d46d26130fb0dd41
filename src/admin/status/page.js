
"use strict";
// Keeps the page like the stream says. Every text that came from elsewhere is set as text, never as markup.
(() => {
  const SVG = "http://www.w3.org/2000/svg";
  const byId = (id) => document.getElementById(id);
  const state = { tools: new Map() };
  const REFUSED = new Set(["denied", "limited", "bad_request", "header_mismatch"]);
  const FINE = new Set(["ok", "input_required"]);
  const number = new Intl.NumberFormat("en");
  // How far this clock is ahead of the gateway's, in seconds.
  let ahead = 0;
  // What is said where no script runs, for whatever reason.
  byId("scriptless").remove();

  // --- Small things ---------------------------------------------------------------------------------------------

  function element(tag, text, kind) {
    const made = document.createElement(tag);
    if (text !== undefined) made.textContent = text;
    if (kind) made.className = kind;
    return made;
  }

  function drawn(tag, attributes) {
    const made = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    return made;
  }

  // What is written anew is read anew by some readers: only what is another text is set.
  function say(node, text) {
    if (node.textContent !== text) node.textContent = text;
  }

  function mark(node, name, value) {
    if (value === null) node.removeAttribute(name);
    else if (node.getAttribute(name) !== value) node.setAttribute(name, value);
  }

  function count(n) {
    if (n < 100000) return number.format(n);
    const [unit, by] = n < 1e6 ? ["k", 1e3] : n < 1e9 ? ["M", 1e6] : ["G", 1e9];
    return (n / by).toFixed(n / by < 100 ? 1 : 0) + "\u202f" + unit;
  }

  function bytes(n) {
    const units = ["B", "KiB", "MiB", "GiB"];
    let at = 0;
    while (n >= 1024 && at < 3) { n /= 1024; at += 1; }
    return (at && n < 10 ? n.toFixed(1) : Math.round(n)) + "\u202f" + units[at];
  }

  function span(seconds) {
    const s = Math.max(0, Math.round(seconds));
    if (s < 60) return s + "\u202fs";
    if (s < 3600) return Math.floor(s / 60) + "\u202fmin";
    if (s < 86400) return Math.floor(s / 3600) + "\u202fh" + (s < 36000 ? "\u202f" + Math.floor(s % 3600 / 60) + "\u202fmin" : "");
    return Math.floor(s / 86400) + "\u202fd";
  }

  function took(ms) {
    if (ms === null) return "–";
    if (ms < 10) return ms.toFixed(1) + "\u202fms";
    if (ms < 1000) return Math.round(ms) + "\u202fms";
    return (ms / 1000).toFixed(ms < 10000 ? 2 : 1) + "\u202fs";
  }

  function share(part, whole) {
    if (!whole || !part) return "0\u202f%";
    const percent = 100 * part / whole;
    return (percent < 0.1 ? "<0.1" : percent < 10 ? percent.toFixed(1) : Math.round(percent)) + "\u202f%";
  }

  const now = () => Date.now() / 1000 - ahead;
  const clock = (at) => new Date(at * 1000).toISOString().replace(".000", "");
  const plural = (n, one, many) => count(n) + " " + (n === 1 ? one : many);

  // --- Pictures -------------------------------------------------------------------------------------------------

  function bars(svg, data, height, words) {
    const [calls, faults] = data;
    const all = state.traffic ? state.traffic.bars : 60;
    const width = 600 / all;
    const most = Math.max(1, ...calls);
    const path = (values) => values.map((value, at) => {
      if (!value) return "";
      const tall = Math.max(1.5, value / most * (height - 2));
      const x = (all - values.length + at) * width;
      return `M${x.toFixed(1)} ${height}v${(-tall).toFixed(1)}h${(width - 2).toFixed(1)}v${tall.toFixed(1)}z`;
    }).join("");
    if (!svg.firstChild) svg.append(drawn("path", { class: "calls" }), drawn("path", { class: "faults" }));
    mark(svg.firstChild, "d", path(calls));
    mark(svg.lastChild, "d", path(faults));
    mark(svg, "aria-label", words);
  }

  const sum = (values) => values.reduce((a, b) => a + b, 0);

  function minutes() {
    return state.traffic ? Math.round(state.traffic.bars * state.traffic.step / 60) : 10;
  }

  function mix(svg, outcomes, all) {
    const parts = { ok: 0, refused: 0, other: 0, fault: 0 };
    for (const [outcome, n] of Object.entries(outcomes)) {
      const part = FINE.has(outcome) ? "ok" : REFUSED.has(outcome) ? "refused" : outcome === "cancelled" ? "other" : "fault";
      parts[part] += n;
    }
    if (!svg.firstChild) for (const part of Object.keys(parts)) svg.append(drawn("rect", { class: part, y: 0, height: 7 }));
    let x = 0;
    for (const rect of svg.children) {
      const n = parts[rect.getAttribute("class")];
      // What happened at all is to be seen.
      const width = n ? Math.max(2, n / all * 110) : 0;
      mark(rect, "x", x.toFixed(1));
      mark(rect, "width", width.toFixed(1));
      x += width;
    }
  }

  // --- Tables ---------------------------------------------------------------------------------------------------

  const TABLES = {
    servers: {
      sort: ["name", 1],
      key: (row) => row.name,
      text: (row) => [row.name, row.owner, row.state, row.era, row.link, row.error].join(" "),
      none: "No server is configured.",
      columns: [
        { key: "name", head: "Server", row: true, value: (r) => r.name, show: (cell, r) => name(cell, r.name, [
          r.link, [r.era, r.version].filter(Boolean).join(" "), r.owner, r.required && "required",
          r.contract && "contract: " + r.contract, r.restarts && plural(r.restarts, "restart", "restarts"),
        ]) },
        { key: "state", head: "State", kind: "state-cell", value: (r) => ({ down: 0, new: 1, up: 2 })[r.state], show: (cell, r) => {
          const [one, small] = parts(cell, "span", "small");
          one.className = "state";
          mark(one, "data-state", r.state);
          say(one, { up: "up", down: "down", new: "not contacted" }[r.state]);
          say(small, r.retry_in === null ? "" : r.retry_in ? "again in " + span(r.retry_in) : "being tried");
        } },
        { key: "inflight", head: "In flight", number: true, value: (r) => r.inflight + r.waiting, show: (cell, r) => {
          const [one, small] = parts(cell, "span", "small");
          say(one, count(r.inflight) + "\u202f/\u202f" + count(r.permits));
          say(small, r.waiting ? count(r.waiting) + " wait" : "");
        } },
        { key: "items", head: "Offers", kind: "offers", value: (r) => r.items.tools || 0, show: (cell, r) => {
          const [one, small] = parts(cell, "span", "small");
          const tools = r.items.tools;
          say(one, r.per_user ? "per caller" : tools === undefined ? "–" : plural(tools, "tool", "tools"));
          const rest = [["prompts", "prompt"], ["resources", "resource"], ["templates", "template"]]
            .filter(([many]) => r.items[many]).map(([many, one]) => plural(r.items[many], one, many));
          say(small, rest.join(", "));
        } },
        { key: "age", head: "List age", number: true, value: (r) => r.known_since === null ? -1 : now() - r.known_since,
          show: (cell, r) => say(cell, r.known_since === null ? "–" : span(now() - r.known_since)) },
        { key: "breaker", head: "Breaker", kind: "breaker", value: (r) => r.breaker || "", show: (cell, r) => {
          say(cell, r.breaker || "–");
          mark(cell, "data-empty", r.breaker ? null : "");
          cell.classList.toggle("bad", r.breaker === "open");
          cell.classList.toggle("warn", r.breaker === "half-open");
        } },
        { key: "error", head: "Last error", kind: "error", value: (r) => r.error_at || 0, show: (cell, r) => {
          const [one, small] = parts(cell, "span", "small");
          mark(cell, "data-empty", r.error === null ? "" : null);
          say(one, r.error === null ? "–" : r.error);
          one.classList.toggle("bad", r.state === "down");
          say(small, r.error_at === null ? "" : span(now() - r.error_at) + " ago");
        } },
      ],
    },
    tools: {
      sort: ["recent", -1],
      key: (row) => row.id,
      text: (row) => [row.tool, row.server, ...Object.keys(row.outcomes)].join(" "),
      none: "A tool is shown here from its first call on.",
      columns: [
        { key: "tool", head: "Tool", row: true, value: (r) => r.tool, show: (cell, r) => name(cell, r.tool,
          [r.server || (r.tool === "other" ? "names that no tool has" : "of the gateway itself")]) },
        { key: "calls", head: "Calls", number: true, value: (r) => r.calls, show: (cell, r) => say(cell, count(r.calls)) },
        { key: "faults", head: "Faults", number: true, value: (r) => r.faults / r.calls, show: (cell, r) => {
          say(cell, share(r.faults, r.calls));
          cell.classList.toggle("bad", r.faults > 0);
        } },
        { key: "outcomes", head: "Outcomes", kind: "outcomes", value: (r) => 1 - ((r.outcomes.ok || 0) / r.calls), show: (cell, r) => {
          if (!cell.firstChild) cell.append(drawn("svg", { class: "mix", viewBox: "0 0 110 7", preserveAspectRatio: "none", "aria-hidden": "true" }), element("small"));
          mix(cell.firstChild, r.outcomes, r.calls);
          const told = Object.entries(r.outcomes).sort((a, b) => b[1] - a[1]).map(([outcome, n]) => count(n) + "\u00a0" + outcome);
          say(cell.lastChild, told.join(", "));
        } },
        { key: "p50", head: "p50", number: true, kind: "quantile", value: (r) => r.p50 === null ? -1 : r.p50, show: (cell, r) => say(cell, took(r.p50)) },
        { key: "p95", head: "p95", number: true, kind: "quantile", value: (r) => r.p95 === null ? -1 : r.p95, show: (cell, r) => say(cell, took(r.p95)) },
        { key: "recent", head: "Last 10 min", kind: "spark", value: (r) => r.recent, show: (cell, r) => {
          if (!cell.firstChild) cell.append(drawn("svg", { class: "bars", viewBox: "0 0 600 22", preserveAspectRatio: "none", role: "img" }));
          const words = `${plural(r.recent, "call", "calls")} in the last ${minutes()} minutes, ${plural(sum(r.bad), "fault", "faults")}`;
          bars(cell.firstChild, [r.bars, r.bad], 22, words);
        } },
      ],
    },
  };

  // The parts of a cell, made once.
  function parts(cell, ...tags) {
    if (!cell.firstChild) cell.append(...tags.map((tag) => element(tag)));
    return cell.children;
  }

  function name(cell, text, more) {
    const [one, small] = parts(cell, "span", "small");
    one.className = "name";
    one.dir = "auto";
    say(one, text);
    say(small, more.filter(Boolean).join(" · "));
  }

  function prepare(id, table) {
    table.node = byId(id);
    table.body = table.node.tBodies[0];
    table.none = table.node.nextElementSibling;
    table.rows = new Map();
    const head = table.node.tHead.rows[0];
    for (const column of table.columns) {
      const cell = element("th", undefined, [column.number && "number", column.kind].filter(Boolean).join(" "));
      cell.scope = "col";
      cell.setAttribute("role", "columnheader");
      const button = element("button", column.head);
      button.type = "button";
      button.addEventListener("click", () => {
        const [key, way] = table.sort;
        const first = column.row || column.key === "state" ? 1 : -1;
        table.sort = [column.key, key === column.key ? -way : first];
        render(table);
      });
      cell.append(button);
      head.append(cell);
      column.cell = cell;
    }
  }

  function fresh(table) {
    const row = element("tr");
    row.setAttribute("role", "row");
    for (const column of table.columns) {
      const cell = element(column.row ? "th" : "td", undefined, [column.number && "number", column.kind].filter(Boolean).join(" "));
      cell.setAttribute("role", column.row ? "rowheader" : "cell");
      if (column.row) cell.scope = "row";
      else cell.dataset.label = column.head;
      row.append(cell);
    }
    return row;
  }

  function render(table) {
    const [by, way] = table.sort;
    const column = table.columns.find((column) => column.key === by);
    for (const each of table.columns) mark(each.cell, "aria-sort", each === column ? (way > 0 ? "ascending" : "descending") : "none");
    const words = byId("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
    const all = [...table.data()];
    const shown = all.filter((row) => words.every((word) => table.text(row).toLowerCase().includes(word)));
    const order = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
    shown.sort((a, b) => way * order(column.value(a), column.value(b)) || order(table.key(a), table.key(b)));
    const keep = new Set();
    let place = table.body.firstChild;
    for (const data of shown) {
      const key = table.key(data);
      keep.add(key);
      if (!table.rows.has(key)) table.rows.set(key, fresh(table));
      const row = table.rows.get(key);
      table.columns.forEach((each, at) => each.show(row.children[at], data));
      if (row === place) place = place.nextSibling;
      else table.body.insertBefore(row, place);
    }
    for (const [key, row] of table.rows) if (!keep.has(key)) { row.remove(); table.rows.delete(key); }
    table.node.hidden = !shown.length;
    table.none.hidden = !!shown.length;
    say(table.none, all.length ? "Nothing fits the filter." : table.none0);
    return [shown.length, all.length];
  }

  function tables() {
    const [servers, allServers] = render(TABLES.servers);
    const [tools, allTools] = render(TABLES.tools);
    say(byId("n-servers"), count(allServers));
    say(byId("n-tools"), count(allTools));
    const filtered = byId("filter").value.trim() !== "";
    say(byId("found"), filtered ? `${servers} of ${plural(allServers, "server", "servers")}, ${tools} of ${plural(allTools, "tool", "tools")}` : "");
    const left = state.gateway ? state.gateway.tools_left_out : 0;
    byId("left-out").hidden = !left;
    say(byId("left-out"), left ? plural(left, "tool that is called less is", "tools that are called less are") + " not shown; /metrics has all." : "");
  }

  // --- The rest -------------------------------------------------------------------------------------------------

  const FIGURES = [
    ["last minute", (g, t) => lately(t)],
    ["requests", (g) => count(g.requests)],
    ["faults", (g) => share(g.faults, g.requests), (g) => g.faults > 0 && "bad"],
    ["in flight", (g) => count(g.inflight)],
    ["streams", (g) => count(g.streams)],
    ["sessions", (g) => count(g.sessions)],
    ["parked calls", (g) => count(g.parked)],
    ["connections", (g) => count(g.connections)],
    ["held in memory", (g) => bytes(g.buffered)],
    ["panics", (g) => count(g.panics), (g) => g.panics > 0 && "bad", (g) => g.panics > 0],
    ["audit lines lost", (g) => count(g.audit_dropped), (g) => g.audit_dropped > 0 && "bad", (g) => g.audit_dropped > 0],
  ];

  // The bars of about the last minute: the newest is of the time since it began.
  const lately = (traffic) => count(sum(traffic.calls.slice(-Math.round(60 / traffic.step))));

  function figures() {
    const [gateway, traffic, list] = [state.gateway, state.traffic, byId("figures")];
    if (!list.firstChild) for (const [label] of FIGURES) {
      const one = element("div");
      one.append(element("dt", label), element("dd"));
      list.append(one);
    }
    FIGURES.forEach(([, value, kind, wanted], at) => {
      const one = list.children[at];
      one.hidden = wanted ? !wanted(gateway) : false;
      say(one.lastChild, value(gateway, traffic));
      one.lastChild.className = (kind && kind(gateway)) || "";
    });
    const most = Math.max(0, ...traffic.calls);
    const words = `${plural(sum(traffic.calls), "request", "requests")} in the last ${minutes()} minutes, ${plural(sum(traffic.faults), "fault", "faults")}`;
    bars(byId("traffic"), [traffic.calls, traffic.faults], 60, words);
    say(byId("span"), `last ${minutes()} minutes`);
    say(byId("peak"), `most in ${traffic.step}\u202fs: ${count(most)}`);
    const ready = byId("ready");
    say(ready, gateway.not_ready === null ? "ready" : "not ready: " + gateway.not_ready);
    mark(ready, "data-state", gateway.not_ready === null ? "up" : "warn");
  }

  function head() {
    const down = state.servers.filter((server) => server.state === "down").length;
    const title = (down ? `(${down} down) ` : "") + "Gatehouse status";
    if (document.title !== title) document.title = title;
    const gateway = state.gateway;
    const eras = Object.entries(gateway.eras).map(([era, n]) => `${share(n, gateway.requests)} ${era}`);
    say(byId("about"), [gateway.version, "up " + span(now() - gateway.started), eras.length ? "clients " + eras.join(", ") : ""].filter(Boolean).join(" · "));
  }

  // A line of a list: texts, and names in a face of their own.
  const plain = (text) => document.createTextNode(text);
  function own(text, kind) {
    const made = element("span", text, kind || "name");
    made.dir = "auto";
    return made;
  }

  const LISTS = {
    denials: (d) => [own(d.who, "who"), plain(d.client && d.client !== d.who ? ` by ${d.client}: ` : ": "), own(d.item || d.method),
      plain(d.server ? ` of ${d.server}, ` : ", "), element("span", d.scopes.length ? "lacks scopes " + d.scopes.join(" ") : "not granted", "quiet")],
    changes: (c) => [own(c.server), plain(` ${c.kind}: ` + [c.added && `${c.added} added`, c.removed && `${c.removed} removed`, c.changed && `${c.changed} changed`,
      `${count(c.items)} now `].filter(Boolean).join(", ")), own(c.names.join(" "), "name quiet")],
    contracts: (c) => [own(c.server), plain(` ${c.kind} `), own(c.item), plain(` ${c.class}, `), element("span", c.held ? "held back" : "reported", c.held ? "bad" : "warn"),
      element("span", " " + c.rules.join(" "), "quiet")],
    refusals: (r) => [plain(`${r.by}: `), own(r.why)],
    reloads: (r) => [element("span", r.taken ? "in use" : "refused", r.taken ? "" : "bad"), plain(": " + r.told)],
  };
  const NOTHING = {
    denials: "Nobody was denied anything.", changes: "No list changed.", contracts: "No guarded definition differs from the approved one.",
    refusals: "Nothing was refused.", reloads: "As it was at the start.",
  };

  function list(key) {
    const lines = state[key].map((entry) => {
      const line = element("li");
      const what = element("div");
      what.append(...LISTS[key](entry));
      if (entry.times > 1) what.append(plain(` ×${count(entry.times)}`));
      const when = entry.at === undefined ? element("span", count(entry.count)) : element("time");
      if (entry.at !== undefined) {
        when.dateTime = when.title = clock(entry.at);
        when.dataset.at = entry.at;
      }
      line.append(when, what);
      return line;
    });
    byId(key).replaceChildren(...(lines.length ? lines : [element("li", NOTHING[key], "none")]));
    // What can be scrolled must be reached without a mouse.
    const scrolls = byId(key).scrollHeight > byId(key).clientHeight + 1;
    mark(byId(key), "tabindex", scrolls ? "0" : null);
  }

  function times() {
    for (const when of document.querySelectorAll("time")) say(when, span(now() - when.dataset.at));
  }

  // --- Aloud: rarely, and only what matters ------------------------------------------------------------------------

  const spoken = { states: new Map(), waiting: [], next: 0 };
  function listen() {
    for (const { name, state: is } of state.servers) {
      const was = spoken.states.get(name);
      if (was !== undefined && was !== is) spoken.waiting.push(`${name} is ${is}`);
      spoken.states.set(name, is);
    }
    if (spoken.waiting.length && Date.now() >= spoken.next) {
      byId("say").textContent = spoken.waiting.splice(0).slice(-5).join(", ");
      spoken.next = Date.now() + 10000;
    }
  }

  // --- The stream -----------------------------------------------------------------------------------------------

  let source = null;
  let heard = 0;
  let paused = false;

  function link(text, is) {
    say(byId("link"), text);
    mark(byId("link"), "data-state", is);
  }

  function take(message) {
    const told = JSON.parse(message.data);
    heard = Date.now();
    const { whole, tools, gone, ...sections } = told;
    if (whole) state.tools.clear();
    for (const id of gone || []) state.tools.delete(id);
    for (const row of tools) state.tools.set(row.id, row);
    Object.assign(state, sections);
    if (sections.gateway) ahead = Date.now() / 1000 - sections.gateway.now;
    head();
    figures();
    tables();
    for (const key of Object.keys(LISTS)) if (sections[key]) list(key);
    times();
    listen();
    link("live", "up");
  }

  function open() {
    if (source || paused || document.hidden) return;
    source = new EventSource("status/stream");
    source.onmessage = take;
    source.onerror = () => {
      link("reconnecting", "warn");
      // A refusal ends it for good: asked again after a while.
      if (source && source.readyState === EventSource.CLOSED) { close(); setTimeout(open, 5000); }
    };
  }

  function close() {
    if (source) source.close();
    source = null;
  }

  for (const [id, table] of Object.entries(TABLES)) {
    table.none0 = table.none;
    prepare(id, table);
  }
  TABLES.servers.data = () => state.servers || [];
  TABLES.tools.data = () => state.tools.values();
  byId("filter").addEventListener("input", tables);
  byId("pause").addEventListener("click", () => {
    paused = !paused;
    mark(byId("pause"), "aria-pressed", String(paused));
    if (paused) { close(); link("paused", "new"); } else { link("connecting", "new"); open(); }
  });
  document.addEventListener("visibilitychange", () => { if (document.hidden) close(); else open(); });
  setInterval(() => { if (source && heard && Date.now() - heard > 5000) link("no news for " + span((Date.now() - heard) / 1000), "warn"); }, 1000);
  open();
})();
