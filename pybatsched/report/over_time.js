// A value over time on a canvas, in the period of the Gantt charts: means as a line above an area of finer means, or exact
// steps. `data.axis` is the axis of values, with its ticks.
"use strict";
function pybatschedOverTime(box, data, board) {
  const decode = (text) => new Float64Array(Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer);
  const line = data.line.map(decode), area = data.area ? data.area.map(decode) : line;
  const X0 = 64, Y0 = 4, WIDTH = Math.min(data.width, box.clientWidth || data.width), W = WIDTH - X0 - data.margin;
  const H = data.height, scale = window.devicePixelRatio || 1, axis = data.axis;
  const canvas = box.appendChild(document.createElement("canvas")), pen = canvas.getContext("2d");
  const tip = box.appendChild(document.createElement("div"));
  tip.className = "gantt-tip";
  canvas.width = WIDTH * scale; canvas.height = (H + 26) * scale;
  canvas.style.width = WIDTH + "px"; canvas.style.height = H + 26 + "px";
  // Heights on a symlog axis are as matplotlib has them: linear up to 1, as high as half a power of ten.
  const up = (v) => (axis.kind === "linear" ? v : v <= 1 ? v / 1.8 : 1 / 1.8 + Math.log10(v));
  const y = (v) => Y0 + (up(axis.high) - up(v)) / (up(axis.high) - up(axis.low)) * H;
  const x = (t) => X0 + (t - board.time.t0) / (board.time.t1 - board.time.t0) * W;
  function indexAt(times, t) { // of the step that holds at an instant, -1 before the first
    let a = 0, b = times.length;
    while (a < b) { const m = (a + b) >> 1; if (times[m] <= t) a = m + 1; else b = m; }
    return a - 1;
  }
  function trace([times, values]) {
    const first = Math.max(indexAt(times, board.time.t0), 0);
    pen.beginPath(); pen.moveTo(x(times[first]), y(0));
    for (let i = first; i < values.length && times[i] < board.time.t1; i++) {
      pen.lineTo(x(times[i]), y(values[i])); pen.lineTo(x(times[i + 1]), y(values[i]));
      if (i + 1 === values.length) pen.lineTo(x(times[i + 1]), y(0));
    }
  }
  const chart = { line, area, axis, told, shown: [] }; // to look at it by hand
  function paint() {
    chart.shown = [board.time.t0, board.time.t1];
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.clearRect(0, 0, WIDTH, H + 26);
    pen.font = "11px system-ui, sans-serif"; pen.lineWidth = 1;
    for (const [at, text] of axis.ticks) {
      pen.fillStyle = "#e4e4e4"; pen.fillRect(X0, y(at), W, 1);
      pen.fillStyle = "#444"; pen.textAlign = "right"; pen.fillText(text, X0 - 8, y(at) + 4);
    }
    pen.textAlign = "center";
    for (const [at, text] of pybatschedClock.ticks(board.time.t0, board.time.t1, Math.min(8, W / 70))) {
      pen.fillRect(x(at), Y0 + H, 1, 4); pen.fillText(text, x(at), Y0 + H + 16);
    }
    pen.strokeStyle = "#444"; pen.strokeRect(X0 - 0.5, Y0 - 0.5, W + 1, H + 1);
    pen.save();
    pen.beginPath(); pen.rect(X0, Y0, W, H); pen.clip();
    pen.fillStyle = pen.strokeStyle = data.color;
    trace(area); pen.lineTo(x(board.time.t1), y(0)); pen.globalAlpha = 0.3; pen.fill(); pen.globalAlpha = 1;
    pen.lineWidth = 1.5; trace(line); pen.stroke();
    pen.lineWidth = 1; pen.strokeStyle = "#666"; pen.setLineDash([4, 3]);
    if (data.limit) { pen.beginPath(); pen.moveTo(X0, y(data.limit)); pen.lineTo(X0 + W, y(data.limit)); pen.stroke(); }
    pen.restore();
  }
  let waiting = false, grabbed = null;
  function redraw() { if (!waiting) { waiting = true; requestAnimationFrame(() => { waiting = false; paint(); }); } }
  const timeAt = (event) => board.time.t0 + (event.clientX - canvas.getBoundingClientRect().left - X0) / W * (board.time.t1 - board.time.t0);
  function told(t) {
    const [times, values] = line, i = indexAt(times, t);
    if (i < 0 || i >= values.length) return "";
    const value = values[i].toLocaleString("en", { maximumFractionDigits: 2 });
    return pybatschedClock.text(times[i]) + " to " + pybatschedClock.text(times[i + 1]) + ": " + value;
  }
  canvas.addEventListener("wheel", (event) => {
    if (!event.ctrlKey) return;
    event.preventDefault();
    board.zoom(Math.pow(1.0015, event.deltaY), timeAt(event));
  }, { passive: false });
  canvas.addEventListener("mousedown", (event) => { grabbed = { x: event.clientX, t0: board.time.t0, t1: board.time.t1 }; });
  window.addEventListener("mouseup", () => { grabbed = null; });
  canvas.addEventListener("dblclick", board.all);
  canvas.addEventListener("mouseleave", () => { tip.style.display = "none"; });
  canvas.addEventListener("mousemove", (event) => {
    if (grabbed) {
      const by = (event.clientX - grabbed.x) / W * (grabbed.t1 - grabbed.t0);
      board.setTime(grabbed.t0 - by, grabbed.t1 - by);
      return;
    }
    tip.textContent = told(timeAt(event));
    tip.style.display = tip.textContent ? "block" : "none";
    tip.style.left = Math.min(event.clientX - canvas.getBoundingClientRect().left + 14, WIDTH - 220) + "px";
    tip.style.top = "4px";
  });
  board.heard.push(redraw);
  paint();
  window.lines = Object.assign(window.lines || {}, { [box.id]: chart });
}
