// The live tail, and "/" as a shortcut to the search. All else works without this file.
"use strict";

document.addEventListener("keydown", (event) => {
  const search = document.getElementById("search");
  const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName);
  if (event.key === "/" && search && !typing) {
    event.preventDefault();
    search.focus();
  }
});

const MAX_ROWS = 200;
const tail = document.getElementById("tail");
if (tail) {
  const element = (name) => document.getElementById(`tail-${name}`);
  const counts = { seen: 0, at: performance.now() };
  const pause = element("pause");
  let paused = false;
  pause.hidden = false;
  pause.addEventListener("click", () => {
    paused = !paused;
    pause.textContent = paused ? "Continue" : "Pause";
  });
  const source = new EventSource(tail.dataset.events);
  source.onerror = () => { element("status").textContent = "The connection is lost; trying again …"; };
  source.addEventListener("failure", (event) => {
    element("status").textContent = JSON.parse(event.data);
    source.close();
  });
  source.onmessage = (event) => {
    const data = JSON.parse(event.data);
    // with the first event: from then on the server reads every record
    element("status").textContent = "Connected; the newest messages come first.";
    const seconds = (performance.now() - counts.at) / 1000;
    for (const name of ["seen", "matching", "skipped"]) element(name).textContent = data[name].toLocaleString("en");
    if (seconds >= 1) {
      element("rate").textContent = Math.round((data.seen - counts.seen) / seconds).toLocaleString("en");
      counts.seen = data.seen;
      counts.at = performance.now();
    }
    if (paused || !data.rows.trim()) return;
    // rendered and escaped by the server
    const rows = element("rows");
    rows.insertAdjacentHTML("afterbegin", data.rows);
    while (rows.rows.length > MAX_ROWS) rows.deleteRow(-1);
  };
}
