// The server's clock in the top bar; with --test-clock also the controls to freeze and move it.

import { clock } from "./clock.js";
import { dialog } from "./dialogs.js";
import { button, errorBox, fill, form, h, icon } from "./elements.js";
import { dateTime } from "./formats.js";

const STEPS = [["10 s", 10], ["1 min", 60], ["1 h", 3_600], ["1 day", 86_400]];

/** Calls `update` when the clock changes, until the node is removed from the page. */
function followClock(node, update) {
  let wasConnected = false;
  const follow = () => {
    wasConnected ||= node.isConnected;
    if (wasConnected && !node.isConnected) {
      clock.removeEventListener("tick", follow);
      clock.removeEventListener("change", follow);
      return;
    }
    update();
  };
  clock.addEventListener("tick", follow);
  clock.addEventListener("change", follow);
  update();
}

export function clockButton() {
  const text = h("span", { class: "clock-text" });
  const node = h("button", { type: "button", class: "clock", onclick: openPanel, "aria-haspopup": "dialog" }, icon("clock"), text);
  followClock(node, () => {
    const [day, time] = dateTime(clock.now()).split(" ");
    if (clock.isUnreachable) fill(text, "no response");
    else fill(text, h("span", { class: "day" }, `${day} `), time);
    node.classList.toggle("frozen", clock.isFrozen && !clock.isUnreachable);
    node.classList.toggle("unreachable", clock.isUnreachable);
    const label = `${day} ${time}${clock.isFrozen ? ", frozen" : ""}`;
    node.setAttribute("aria-label", `Server clock ${clock.isUnreachable ? "does not respond" : label}`);
    node.title = tooltip();
  });
  return node;
}

function tooltip() {
  if (clock.isUnreachable) return "The server does not respond";
  if (!clock.isKnown) return "Clock of this computer: this key may not read the server's clock";
  return clock.isFrozen ? "Server clock (frozen)" : "Server clock";
}

/** One or two sentences about the time that is shown. */
function description() {
  if (clock.isUnreachable) return `The server does not respond. ${clock.isKnown ? "This time is an estimate." : "This is the clock of this computer."}`;
  if (!clock.isKnown) return "This is the clock of this computer: this key may not read the server's clock.";
  if (clock.hasJumped) return "The system clock jumped ahead, so nothing is purged. If the new time is right, confirm it. Otherwise correct the system clock and reject the jump: time continues from there, and items that only the jump had expired are live again.";
  if (clock.isHeld) return "The clock is frozen until the system clock reaches this time: the data was already used at this time. With --test-clock the server lets it run.";
  if (!clock.isMovable) return "The clock follows the system clock. Start the server with --test-clock to freeze it or move it forward.";
  return `The clock is ${clock.isFrozen ? "frozen" : "running"}.${clock.mayMove === false ? " This key can only read the clock." : ""}`;
}

function openPanel() {
  return dialog("Server clock", () => {
    const time = h("output", { class: "clock-large" });
    const state = h("p", { class: "muted" });
    const error = errorBox();
    const controls = h("div", { class: "form" });
    const node = h("div", { class: "clock-panel" }, time, state, error.node, controls);
    const attempt = async (change) => {
      error.hide();
      try {
        await change();
      } catch (failed) {
        error.show(failed.message);
      }
    };
    const move = (action, body) => attempt(() => clock.move(action, body));
    const decide = (decision) => attempt(() => clock.decide(decision));
    let drawn = null;
    followClock(node, () => {
      time.textContent = dateTime(clock.now());
      const isOffered = clock.isMovable && clock.mayMove;
      const next = `${isOffered} ${description()}`;
      if (next === drawn) return; // the buttons keep their focus
      drawn = next;
      state.textContent = description();
      const hadFocus = controls.contains(document.activeElement);
      fill(controls, clock.hasJumped && jumpControls(decide), isOffered && moveControls(move));
      if (hadFocus) controls.querySelector("button")?.focus();
    });
    return node;
  });
}

function jumpControls(decide) {
  return h("div", { class: "row wrap", role: "group", "aria-label": "Clock jump" },
    button("Confirm clock change", () => decide("confirm"), { kind: "primary" }),
    button("Reject clock change", () => decide("reject")));
}

function moveControls(move) {
  const seconds = h("input", { type: "number", min: "0", step: "any", class: "number-input", "aria-label": "Seconds to move forward", value: "30", required: true });
  return [
    h("div", { class: "row" },
      clock.isFrozen
        ? button([icon("play"), "Resume"], () => move("resume"), { kind: "primary" })
        : button([icon("freeze"), "Freeze"], () => move("freeze"), { kind: "primary" })),
    h("div", { class: "row wrap", role: "group", "aria-label": "Move forward" },
      STEPS.map(([label, step]) => button(`+ ${label}`, () => move("advance", { seconds: step })))),
    form(() => move("advance", { seconds: Number(seconds.value) }),
      h("footer", { class: "row start" }, seconds, h("span", {}, "second(s)"), button("Move forward", null, { type: "submit" }))),
    h("p", { class: "hint" }, "The clock only moves forward. Items that expire when you move it cannot be restored."),
  ];
}
