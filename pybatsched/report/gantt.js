// A Gantt chart on a canvas. Rectangles are painted into one image by hand: measured, this redraws 100,000 jobs in some
// hundredths of a second where general charting libraries take seconds. All names are set as text, never as HTML.
"use strict";
function pybatschedGantt(box, data, board) {
  const decode = (text, kind) => new kind(Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer);
  const left = decode(data.left, Float64Array), right = decode(data.right, Float64Array);
  const low = decode(data.low, Uint32Array), high = decode(data.high, Uint32Array);
  const job = decode(data.job, Uint32Array), look = decode(data.look, Uint8Array);
  const note = data.notes && decode(data.note, Uint32Array);
  const states = decode(data.states, Uint8Array), sizes = decode(data.sizes, Uint32Array); // these are of each job
  const submitted = decode(data.submitted, Float64Array), waits = decode(data.waits, Float64Array);
  const runtimes = decode(data.runtimes, Float64Array);
  const user = data.users && decode(data.user, Uint32Array);
  const hues = decode(data.hues, Uint8Array), shades = {};
  for (const [name, column] of Object.entries(data.shades)) shades[name] = decode(column, Uint8Array);
  const n = left.length, BLOCK = 512, KIND = 7, HELD = 3, LOAD = 4, URGENT = 8;
  const BLOCKED = { 16: [0xffe8e8e8, 0xffb4b4b4], 17: [0xff606060, 0xff383838] }; // hosts reserved or down: ground, stripes
  const blockedAt = (kind, x, y) => BLOCKED[kind][(x + y) % 8 < 2 ? 1 : 0]; // the colour of a pixel
  // Rectangles come in the order of their starts; a block knows how far its longest one reaches.
  const reach = new Float64Array(Math.ceil(n / BLOCK));
  for (let i = 0; i < n; i++) reach[(i / BLOCK) | 0] = Math.max(reach[(i / BLOCK) | 0], right[i]);
  const urgent = []; // these are painted last, so that none is hidden
  for (let i = 0; i < n; i++) if (look[i] & URGENT) urgent.push(i);
  const canvas = box.appendChild(document.createElement("canvas"));
  const marks = box.appendChild(document.createElement("canvas")); // above it: outlines of the job that is looked at
  marks.className = "gantt-marks";
  const tip = box.appendChild(document.createElement("div"));
  tip.className = "gantt-tip";
  const WIDTH = Math.min(data.width, box.clientWidth || data.width), HEIGHT = data.height, X0 = 64, Y0 = 8, H = HEIGHT - Y0 - 44;
  const bands = data.bands || [], W = WIDTH - X0 - data.margin; // names of clusters or nodes are on the right
  const LEAST = 5; // pixels: lower bands have no tint and no line
  const scale = window.devicePixelRatio || 1;
  for (const one of [canvas, marks]) {
    one.width = WIDTH * scale; one.height = HEIGHT * scale;
    one.style.width = WIDTH + "px"; one.style.height = HEIGHT + "px";
  }
  const pen = canvas.getContext("2d"), marker = marks.getContext("2d");
  const pw = Math.round(W * scale), ph = Math.round(H * scale);
  const image = pen.createImageData(pw, ph), pixels = new Uint32Array(image.data.buffer);
  const bar = pybatschedBars(pixels, pw, ph, Math.max(1, Math.round(scale)));
  const dust = pybatschedDust(pixels, pw, ph);
  const rows = { p0: 0, p1: data.procs };
  const view = { get t0() { return board.time.t0; }, get t1() { return board.time.t1; }, p0: rows.p0, p1: rows.p1 };

  function firstAfter(time) { // the first rectangle that starts at or after a time
    let a = 0, b = n;
    while (a < b) { const m = (a + b) >> 1; if (left[m] < time) a = m + 1; else b = m; }
    return a;
  }
  function forEachSeen(todo) {
    const { t0, t1, p0, p1 } = view, end = firstAfter(t1);
    for (let block = 0; block * BLOCK < end; block++) {
      if (reach[block] <= t0) continue;
      for (let i = block * BLOCK, last = Math.min(end, (block + 1) * BLOCK); i < last; i++)
        if (right[i] > t0 && high[i] > p0 && low[i] < p1) todo(i);
    }
  }
  function paint() {
    pixels.fill(0xffffffff);
    bands.forEach(([, from, to], k) => { // every other one is tinted
      const y = (p) => Math.min(Math.max(Math.floor((view.p1 - p) / (view.p1 - view.p0) * ph), 0), ph);
      if (k % 2 && (to - from) / (view.p1 - view.p0) * H >= LEAST) pixels.fill(0xfffaf3ee, y(to) * pw, y(from) * pw);
    });
    const { t0, t1, p0, p1 } = view, sx = pw / (t1 - t0), sy = ph / (p1 - p0), kinds = shades[board.shade.name];
    const colors = board.shade.colors, colorOf = kinds ? (k) => colors[kinds[k]] : (k) => data.palette[hues[k]];
    let seen = 0;
    forEachSeen(() => { seen++; });
    const least = seen < 2000 ? 1 : 0; // of few jobs each is to be seen; of many, how much they take together
    for (const [kind, areas] of Object.entries(data.blocked || {})) // behind all jobs
      for (const [from, to, lowest, highest] of areas) {
        if (to <= t0 || from >= t1 || highest <= p0 || lowest >= p1) continue;
        const x1 = (from - t0) * sx, x2 = (to - t0) * sx, y1 = (p1 - highest) * sy, y2 = (p1 - lowest) * sy;
        if (x2 - x1 < 3 || y2 - y1 < 2)
          dust.add(BLOCKED[kind][0], x1, y1, Math.max(x2 - x1, least), Math.max(y2 - y1, least));
        else
          for (let y = Math.max(Math.floor(y1), 0), yEnd = Math.min(Math.floor(y2), ph); y < yEnd; y++)
            for (let x = Math.max(Math.floor(x1), 0), xEnd = Math.min(Math.floor(x2), pw); x < xEnd; x++)
              pixels[y * pw + x] = blockedAt(kind, x, y);
      }
    function one(i) {
      const x1 = Math.floor((left[i] - t0) * sx), y1 = Math.floor((p1 - high[i]) * sy);
      let x2 = Math.floor((right[i] - t0) * sx), y2 = Math.floor((p1 - low[i]) * sy);
      // A line of white between neighbours where there is room; a load and its job are one.
      if (x2 - x1 > 3) { if ((look[i] & KIND) !== LOAD) x2--; } else if (x2 <= x1) x2 = x1 + 1;
      if (y2 - y1 > 3) y2--; else if (y2 <= y1) y2 = y1 + 1;
      bar(look[i], colorOf(job[i]), x1, y1, x2, y2);
    }
    const large = [];
    forEachSeen((i) => {
      const wide = (right[i] - left[i]) * sx, tall = (high[i] - low[i]) * sy;
      if (look[i] || (wide >= 3 && tall >= 2)) large.push(i);
      else dust.add(colorOf(job[i]), (left[i] - t0) * sx, (p1 - high[i]) * sy, Math.max(wide, least), Math.max(tall, least));
    });
    dust.settle();
    for (const i of large) if (!(look[i] & URGENT)) one(i);
    for (const i of urgent) if (right[i] > t0 && left[i] < t1 && high[i] > p0 && low[i] < p1) one(i);
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.clearRect(0, 0, canvas.width, canvas.height);
    pen.putImageData(image, Math.round(X0 * scale), Math.round(Y0 * scale));
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.strokeStyle = pen.fillStyle = "#444";
    pen.strokeRect(X0 - 0.5, Y0 - 0.5, W + 1, H + 1);
    pen.font = "11px system-ui, sans-serif";
    pen.textAlign = "center";
    for (const [t, label] of pybatschedClock.ticks(t0, t1, Math.min(8, W / 70))) {
      const x = X0 + (t - t0) / (t1 - t0) * W;
      pen.fillRect(x, Y0 + H, 1, 4);
      pen.fillText(label, x, Y0 + H + 16);
    }
    pen.fillText("time", X0 + W / 2, Y0 + H + 34);
    pen.textAlign = "right";
    for (const p of ticks(p0, p1, Math.min(6, H / 40))) {
      const y = Y0 + (p1 - p) / (p1 - p0) * H;
      pen.fillRect(X0 - 5, y, 4, 1);
      pen.fillText(processor(p).toLocaleString("en"), X0 - 8, y + 4);
    }
    pen.textAlign = "left";
    let free = Infinity; // names of low bands are drawn where they do not overlap
    for (const [name, from, to] of bands) {
      const y = (p) => Y0 + (p1 - Math.min(Math.max(p, p0), p1)) / (p1 - p0) * H;
      const tall = y(from) - y(to), middle = (y(from) + y(to)) / 2;
      if (from > p0 && from < p1 && tall >= LEAST) pen.fillRect(X0, Math.round(y(from)), W + 12, 1);
      if (tall > 0 && middle + 6 <= free) { pen.fillText(shortened(name, 90), X0 + W + 8, middle + 4); free = middle - 6; }
    }
    pen.save(); pen.translate(12, Y0 + H / 2); pen.rotate(-Math.PI / 2); pen.textAlign = "center";
    pen.fillText("processor", 0, 0); pen.restore();
    outline();
  }
  function processor(row) { // which one has a row: its own, unless clusters had to be put together
    let found = [0, 0];
    for (const part of data.rows || []) if (part[0] <= row) found = part;
    return found[1] + row - found[0];
  }
  function shortened(text, most) {
    let cut = text;
    while (cut && pen.measureText(cut === text ? text : cut + "…").width > most) cut = cut.slice(0, -1);
    return cut === text ? text : cut + "…";
  }
  function ticks(from, to, wanted) {
    const raw = (to - from) / wanted, power = Math.pow(10, Math.floor(Math.log10(raw)));
    const step = [1, 2, 5, 10].map((k) => k * power).find((k) => k >= raw), found = [];
    for (let at = Math.ceil(from / step) * step; at <= to; at += step) found.push(Math.round(at / step) * step);
    return found;
  }

  // The job that is looked at: its parts are outlined, and joined from the end of one to the begin of the next.
  let marked = -1, numbers = null;
  function numberOf(id) { // of a job, -1 if it did not run here
    numbers = numbers || new Map(data.jobs.map((name, k) => [name, k]));
    return numbers.has(id) ? numbers.get(id) : -1;
  }
  function named(text) { // the jobs that somebody may mean: by the whole id, else by the part behind the workload's name
    return numberOf(text) >= 0 ? [text] : data.jobs.filter((id) => id.slice(id.indexOf("!") + 1) === text);
  }
  function partsOf(k) { // its bars one after another, each with all of its rectangles: [begin, end, lowest, highest, rectangles]
    const found = [];
    for (let i = 0; i < n; i++) {
      if (job[i] !== k) continue;
      const last = found[found.length - 1];
      if (last && last[0] === left[i] && last[1] === right[i]) {
        last[2] = Math.min(last[2], low[i]); last[3] = Math.max(last[3], high[i]); last[4].push(i);
      } else found.push([left[i], right[i], low[i], high[i], [i]]);
    }
    return found;
  }
  function lifetime(id) { // from its first start to its last end: with a long wait, it would be too small to be seen
    const parts = partsOf(numberOf(id));
    return [parts[0][0], Math.max(...parts.map((part) => part[1]))];
  }
  function outline() {
    marker.setTransform(1, 0, 0, 1, 0, 0);
    marker.clearRect(0, 0, marks.width, marks.height);
    if (marked < 0) return;
    marker.setTransform(scale, 0, 0, scale, 0, 0);
    marker.save();
    marker.beginPath(); marker.rect(X0, Y0, W, H); marker.clip();
    const x = (t) => X0 + (t - view.t0) / (view.t1 - view.t0) * W, y = (p) => Y0 + (view.p1 - p) / (view.p1 - view.p0) * H;
    const parts = partsOf(marked);
    for (const [color, width] of [["#fff", 5], ["#000", 2]]) { // seen on light and on dark
      marker.strokeStyle = color; marker.lineWidth = width;
      for (const [begin, end, , , own] of parts)
        for (const i of own) marker.strokeRect(x(begin), y(high[i]), Math.max(x(end) - x(begin), 2), Math.max(y(low[i]) - y(high[i]), 2));
      marker.setLineDash([4, 3]);
      for (let k = 1; k < parts.length; k++) {
        const [, from, a, b] = parts[k - 1], [to, , c, d] = parts[k];
        marker.beginPath(); marker.moveTo(x(from), y((a + b) / 2)); marker.lineTo(x(to), y((c + d) / 2)); marker.stroke();
      }
      marker.setLineDash([]);
    }
    marker.restore();
  }
  function mark(id) {
    const wanted = id === null ? -1 : numberOf(id);
    if (wanted !== marked) { marked = wanted; outline(); }
  }

  let waiting = false;
  function redraw() { if (!waiting) { waiting = true; requestAnimationFrame(() => { waiting = false; paint(); }); } }
  function allRows() { Object.assign(view, rows); }
  function place(event) {
    const at = canvas.getBoundingClientRect();
    const x = event.clientX - at.left - X0, y = event.clientY - at.top - Y0;
    return { x, y, t: view.t0 + x / W * (view.t1 - view.t0), p: view.p1 - y / H * (view.p1 - view.p0) };
  }
  canvas.addEventListener("wheel", (event) => { // without a key it is the page that scrolls
    if (!event.ctrlKey && !event.shiftKey) return;
    event.preventDefault();
    const here = place(event), factor = Math.pow(1.0015, event.deltaY || event.deltaX);
    if (event.shiftKey) {
      const span = Math.min(Math.max((view.p1 - view.p0) * factor, 1), rows.p1), share = (here.p - view.p0) / (view.p1 - view.p0);
      view.p0 = Math.min(Math.max(here.p - share * span, 0), rows.p1 - span); view.p1 = view.p0 + span;
      redraw();
    }
    if (event.ctrlKey) board.zoom(factor, here.t);
  }, { passive: false });
  let grabbed = null;
  canvas.addEventListener("mousedown", (event) => { grabbed = { at: place(event), view: Object.assign({}, view) }; });
  window.addEventListener("mouseup", () => { grabbed = null; });
  canvas.addEventListener("dblclick", board.all);
  canvas.addEventListener("mouseleave", () => { tip.style.display = "none"; board.unmark(); });
  canvas.addEventListener("mousemove", (event) => {
    const here = place(event);
    if (grabbed) {
      const old = grabbed.view, dt = (here.x - grabbed.at.x) / W * (old.t1 - old.t0), dp = (here.y - grabbed.at.y) / H * (old.p1 - old.p0);
      view.p0 = Math.min(Math.max(old.p0 + dp, 0), rows.p1 - (old.p1 - old.p0)); view.p1 = view.p0 + old.p1 - old.p0;
      board.setTime(old.t0 - dt, old.t1 - dt);
      redraw();
      return;
    }
    const i = here.x < 0 || here.x > W || here.y < 0 || here.y > H ? -1 : at(here.t, here.p);
    if (i < 0) { tip.style.display = "none"; board.unmark(); return; }
    board.mark(data.kin, data.jobs[job[i]]);
    tell(i, here.x + X0 + 14, here.y + Y0 + 14);
  });
  function tell(i, x, y) {
    tip.textContent = told(i);
    tip.style.display = "block";
    tip.style.left = Math.max(Math.min(x, WIDTH - 460), 0) + "px";
    tip.style.top = y + "px";
  }
  function at(t, p) { // the rectangle at a point, -1 if there is none
    for (let block = ((firstAfter(t + 1e-9) - 1) / BLOCK) | 0; block >= 0; block--) {
      if (reach[block] <= t) continue;
      for (let i = Math.min(n, (block + 1) * BLOCK) - 1; i >= block * BLOCK; i--)
        if (left[i] <= t && t < right[i] && low[i] <= p && p < high[i]) return i;
    }
    return -1;
  }
  function told(i) {
    const k = job[i], s = pybatschedClock.text;
    const lines = ["job " + data.jobs[k] + (look[i] & URGENT ? ", urgent" : "")];
    if (note && note[i]) lines.push(data.notes[note[i]]);
    const kind = look[i] & KIND, word = kind === HELD ? ", held" : kind === LOAD ? ", loading" : "";
    const spent = word ? word + " from " + s(left[i]) + " to " + s(right[i])
      : ", this began " + s(left[i]) + ", ended " + s(right[i]);
    const whose = user && data.users[user[k]] ? ", user " + data.users[user[k]] : "";
    lines.push(data.words[states[k]] + ", " + sizes[k] + " processors" + whose,
      "submitted " + s(submitted[k]) + spent,
      "waited " + s(waits[k]) + ", ran " + s(runtimes[k]));
    if (data.stories) lines.push(...(data.stories[k] || []).map(([when, what]) => s(when) + ": " + what));
    return lines.join("\n");
  }
  function show() { // the job that was found, with what there is to tell
    box.scrollIntoView({ block: "center" });
    const i = job.indexOf(marked), x = (t) => X0 + (t - view.t0) / (view.t1 - view.t0) * W;
    if (i >= 0) tell(i, x(right[i]) + 14, Y0 + (view.p1 - high[i]) / (view.p1 - view.p0) * H + 14);
  }
  function explain() { // the legend: a small bar and its meaning for each look that is there
    const legend = box.appendChild(document.createElement("div"));
    legend.className = "gantt-legend";
    for (const [kind, meaning] of data.legend) {
      const entry = legend.appendChild(document.createElement("span"));
      const sample = entry.appendChild(document.createElement("canvas"));
      const w = sample.width = Math.round(34 * scale), h = sample.height = Math.round(16 * scale);
      sample.style.width = "34px"; sample.style.height = "16px";
      const drawn = sample.getContext("2d"), small = drawn.createImageData(w, h);
      const dots = new Uint32Array(small.data.buffer);
      if (BLOCKED[kind]) for (let i = 0; i < w * h; i++) dots[i] = blockedAt(kind, i % w, (i / w) | 0);
      else pybatschedBars(dots, w, h, Math.max(1, Math.round(scale)))(kind, data.palette[0], 0, 0, w, h);
      drawn.putImageData(small, 0, 0);
      entry.append(meaning);
    }
  }
  if (data.legend.length) explain();
  const chart = { view, kin: data.kin, label: data.label, paint, redraw, allRows, mark, named, lifetime, show, at, told, n, processor, partsOf,
    marked: () => marked, markedJob: () => (marked < 0 ? null : data.jobs[marked]) };
  board.add(chart);
  window.gantts = Object.assign(window.gantts || {}, { [box.id]: chart });
  paint();
}
