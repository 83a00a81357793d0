// The server's time in the top bar; with --test-clock also the means to stop and move it.

import { clock } from "./clock.js";
import { button, dialog, fill, form, h, icon, moment } from "./dom.js";

const STEPS = [["10 s", 10], ["1 min", 60], ["1 h", 3_600], ["1 day", 86_400]];

export function clockButton() {
  const text = h("span", { class: "clock-text" });
  const node = h("button", { type: "button", class: "clock", onclick: panel, "aria-haspopup": "dialog" }, icon("clock"), text);
  const update = () => {
    if (!node.isConnected && text.textContent) {
      clock.removeEventListener("tick", update);
      return;
    }
    const [day, time] = moment(clock.now()).split(" ");
    if (clock.isSilent) fill(text, "no answer");
    else fill(text, h("span", { class: "day" }, `${day} `), time);
    node.classList.toggle("frozen", clock.isFrozen && !clock.isSilent);
    node.classList.toggle("silent", clock.isSilent);
    const said = clock.isFrozen ? `${day} ${time}, standing still` : `${day} ${time}`;
    node.setAttribute("aria-label", `Server clock ${clock.isSilent ? "gives no answer" : said}`);
    node.title = title();
  };
  clock.addEventListener("tick", update);
  clock.addEventListener("change", update);
  update();
  return node;
}

function title() {
  if (clock.isSilent) return "The server does not answer";
  if (!clock.isKnown) return "This machine's clock: the key may not ask for the server's";
  return clock.isFrozen ? "The server's clock stands still" : "The server's clock";
}

function panel() {
  return dialog("Server clock", () => {
    const time = h("output", { class: "clock-large" });
    const state = h("p", { class: "muted" });
    const problem = h("div", { class: "problem", role: "alert", hidden: true });
    const controls = h("div", { class: "form" });
    const body = h("div", { class: "clock-panel" }, time, state, problem, controls);
    let drawnFor = null;
    const draw = () => {
      time.textContent = moment(clock.now());
      const isOffered = clock.isMovable && clock.mayMove;
      const wanted = `${isOffered} ${standing()}`;
      if (drawnFor === wanted) return; // buttons keep their focus
      drawnFor = wanted;
      state.textContent = standing();
      const hasFocus = controls.contains(document.activeElement);
      fill(controls, isOffered && movable(move));
      if (hasFocus) controls.querySelector("button")?.focus();
    };
    const move = async (how, what) => {
      problem.hidden = true;
      try {
        await clock.move(how, what);
      } catch (error) {
        problem.textContent = error.message;
        problem.hidden = false;
      }
    };
    const update = () => {
      if (!body.isConnected && drawnFor) {
        clock.removeEventListener("tick", update);
        clock.removeEventListener("change", update);
        return;
      }
      draw();
    };
    draw();
    clock.addEventListener("tick", update);
    clock.addEventListener("change", update);
    return body;
  });
}

/** What can be said of the time that is shown. */
function standing() {
  if (clock.isSilent) return `The server does not answer. This is ${clock.isKnown ? "what its clock should say" : "this machine's clock"}.`;
  if (!clock.isKnown) return "This is this machine's clock, because this key may not ask for the server's.";
  if (clock.isHeld) return "It stands still until the system's clock gets there: this data has seen that time. With --test-clock the server lets it run on.";
  if (!clock.isMovable) return "It follows the system. Start the server with --test-clock to stop it and move it forward.";
  return `${clock.isFrozen ? "It stands still." : "It runs."}${clock.mayMove === false ? " This key can only read it." : ""}`;
}

function movable(move) {
  const seconds = h("input", { type: "number", min: "0", step: "any", class: "seconds", "aria-label": "Seconds to move forward", value: "30", required: true });
  return [
    h("div", { class: "row" },
      clock.isFrozen
        ? button([icon("play"), "Let it run"], () => move("resume"), { kind: "primary" })
        : button([icon("snow"), "Freeze"], () => move("freeze"), { kind: "primary" })),
    h("div", { class: "row wrap", role: "group", "aria-label": "Move forward" },
      STEPS.map(([label, step]) => button(`+ ${label}`, () => move("advance", { seconds: step })))),
    form(() => move("advance", { seconds: Number(seconds.value) }),
      h("footer", { class: "row start" }, seconds, h("span", {}, "second(s)"), button("Move forward", null, { type: "submit" }))),
    h("p", { class: "hint" }, "Time only moves forward. What it ends is gone for good."),
  ];
}
