(() => {
  "use strict";
  // What a mark of a chart stands for, beside the pointer or the finger.
  const tip = document.getElementById("tip");

  function show(event) {
    const mark = event.target.closest?.("[data-tip]");
    tip.hidden = !mark;
    if (!mark) return;
    tip.textContent = mark.dataset.tip;
    const right = document.documentElement.clientWidth - tip.offsetWidth - 8;
    const below = event.clientY + tip.offsetHeight + 24 < window.innerHeight;
    tip.style.left = `${Math.max(8, Math.min(event.clientX + 12, right))}px`;
    tip.style.top = `${event.clientY + (below ? 16 : -tip.offsetHeight - 8)}px`;
  }

  document.addEventListener("pointermove", show);
  document.addEventListener("pointerdown", show);
  document.addEventListener("scroll", () => { tip.hidden = true; }, { passive: true });
})();
