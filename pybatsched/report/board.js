// What all charts of a page have in common: one stretch of time, one choice of colours, one job that is looked for.
"use strict";
function pybatschedBoard(side, about) {
  const whole = { t0: about.begin, t1: Math.max(about.end, about.begin + 1e-6) }, SHORTEST = 1e-3;
  const board = { whole, time: Object.assign({}, whole), charts: [], shade: null, found: null, heard: [] };
  const part = (name) => side.querySelector(name);
  const colours = part("select"), field = part("input"), answer = part("output"), key = part(".shades");

  board.add = (chart) => board.charts.push(chart);
  board.redraw = () => board.charts.forEach((chart) => chart.redraw());
  board.setTime = (t0, t1) => { // as it lies within the whole; all charts show it
    const span = Math.min(Math.max(t1 - t0, SHORTEST), whole.t1 - whole.t0);
    const start = Math.min(Math.max(t0, whole.t0), whole.t1 - span);
    if (start === board.time.t0 && start + span === board.time.t1) return;
    board.time.t0 = start; board.time.t1 = start + span;
    board.redraw();
    board.heard.forEach((tell) => tell(board.time));
  };
  board.zoom = (factor, about = (board.time.t0 + board.time.t1) / 2) => { // what is at an instant stays where it is
    const span = Math.min(Math.max((board.time.t1 - board.time.t0) * factor, SHORTEST), whole.t1 - whole.t0);
    const t0 = about - (about - board.time.t0) / (board.time.t1 - board.time.t0) * span;
    board.setTime(t0, t0 + span);
  };
  board.all = () => { board.charts.forEach((chart) => chart.allRows()); board.setTime(whole.t0, whole.t1); board.redraw(); };

  // Colours: those of single jobs, or of the classes of a shade, which the key tells.
  for (const shade of about.shades) colours.add(new Option(shade.title, shade.name));
  board.choose = (name) => {
    colours.value = name;
    board.shade = about.shades.find((shade) => shade.name === name);
    key.replaceChildren(...board.shade.words.map((word, k) => {
      const entry = document.createElement("li"), swatch = entry.appendChild(document.createElement("i"));
      swatch.style.background = "#" + [0, 8, 16].map((by) => (board.shade.colors[k] >>> by & 255).toString(16).padStart(2, "0")).join("");
      entry.append(word);
      return entry;
    }));
    board.redraw();
  };
  colours.addEventListener("change", () => board.choose(colours.value));

  // A job is marked in all runs that are of the same workloads: there it is the same job.
  board.mark = (kin, id) => board.charts.forEach((chart) => chart.mark(chart.kin === kin ? id : null));
  board.find = (text) => { // each time the next job that may be meant
    const wanted = text.trim();
    const hits = wanted ? board.charts.flatMap((chart) => chart.named(wanted).map((id) => ({ chart, id }))) : [];
    const distinct = hits.filter((hit, k) => hits.findIndex((one) => one.id === hit.id && one.chart.kin === hit.chart.kin) === k);
    if (!distinct.length) {
      board.found = null; board.mark(null, null);
      answer.textContent = wanted ? "no job " + wanted + " ran" : "";
      return false;
    }
    const number = board.found && board.found.wanted === wanted ? (board.found.number + 1) % distinct.length : 0;
    const { chart, id } = distinct[number];
    board.found = { wanted, number, id, kin: chart.kin };
    const where = board.charts.length > 1 ? " of " + chart.label : "";
    answer.textContent = "job " + id + where + (distinct.length > 1 ? ", " + (number + 1) + " of " + distinct.length : "");
    const [begin, end] = chart.lifetime(id), margin = Math.max(end - begin, 30);
    board.charts.forEach((one) => { if (one.kin === chart.kin) one.allRows(); });
    board.setTime(begin - margin, end + margin);
    board.mark(chart.kin, id);
    board.redraw();
    chart.show();
    return true;
  };
  board.unmark = () => board.mark(board.found && board.found.kin, board.found && board.found.id); // but what was found
  field.addEventListener("keydown", (event) => { if (event.key === "Enter") board.find(field.value); });
  field.addEventListener("search", () => { if (!field.value) board.find(""); });
  const buttons = { "+": () => board.zoom(0.5), "−": () => board.zoom(2), all: board.all,
    "←": () => move(-0.5), "→": () => move(0.5) };
  function move(share) {
    const by = share * (board.time.t1 - board.time.t0);
    board.setTime(board.time.t0 + by, board.time.t1 + by);
  }
  for (const button of side.querySelectorAll("button")) button.addEventListener("click", buttons[button.value]);
  board.choose(about.shade);
  return board;
}
