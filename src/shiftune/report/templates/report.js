(() => {
  "use strict";
  const { charts, templates } = JSON.parse(document.getElementById("data").textContent);
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const mouse = window.matchMedia("(hover: hover)");
  const config = {
    responsive: true,
    displayModeBar: false,
  };
  const copy = (value) => JSON.parse(JSON.stringify(value));

  // A finger that drags wants to scroll the page, so only a mouse may zoom.
  function layoutOf(id, theme) {
    const layout = { ...copy(charts[id].layout), template: templates[theme] };
    layout.dragmode = mouse.matches ? "zoom" : false;
    return layout;
  }

  function draw() {
    const theme = dark.matches ? "dark" : "light";
    for (const place of document.querySelectorAll("[data-chart]")) {
      const id = place.dataset.chart;
      if (!place.classList.contains("drawn")) place.replaceChildren();
      Plotly.react(place, copy(charts[id].data), layoutOf(id, theme), config);
      place.classList.add("drawn");
    }
  }

  // Paper is white and of another width: it gets pictures of its own.
  async function preparePrint() {
    for (const image of document.querySelectorAll("img[data-print]")) {
      const id = image.dataset.print;
      const size = { width: Number(image.dataset.width), height: charts[id].layout.height };
      const layout = { ...layoutOf(id, "light"), ...size };
      image.src = await Plotly.toImage({ data: copy(charts[id].data), layout }, { format: "svg", ...size });
    }
    document.documentElement.classList.add("printable");
  }

  draw();
  dark.addEventListener("change", draw);
  preparePrint();
})();
