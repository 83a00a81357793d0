// The shell: who is signed in, what the address says, which view is on the screen.

import * as api from "./api.js";
import { clock } from "./clock.js";
import { clockButton } from "./clock-panel.js";
import { confirm, failure, fill, h, iconButton, loading, toast } from "./dom.js";
import { link, parse, TABS } from "./routes.js";
import { tree } from "./tree.js";
import { changesView } from "./views/changes.js";
import { connectView, reconnect } from "./views/connect.js";
import { databaseView } from "./views/database.js";
import { homeView } from "./views/home.js";
import { itemsView } from "./views/items.js";
import { lifetimesView } from "./views/lifetimes.js";
import { queryView } from "./views/query.js";
import { settingsView } from "./views/settings.js";

const app = document.getElementById("app");
const VIEWS = { items: itemsView, query: queryView, changes: changesView, settings: settingsView, lifetimes: lifetimesView };

let view = null; // {dispose?, canLeave?, update?, refresh?} of what is on the screen
let shown = null; // its address
let shownAt = null; // and its place in the tab's history, where the browser tells
let isAsking = false; // for another key, over the page
let isLockedOut = false; // somebody would not give one, for the text's sake

const KEY = /^#key=([^&]*)/;

/** A key handed over in the address is taken out of it before anything else happens. */
function handedOver(address = "") {
  const found = KEY.exec(location.hash);
  if (!found) return null;
  history.replaceState(null, "", address || location.pathname + location.search);
  try {
    return decodeURIComponent(found[1]);
  } catch {
    return found[1]; // no key either way, which signing in says
  }
}

async function start() {
  const key = handedOver();
  fill(app, loading("Connecting"));
  try {
    if (key ?? api.storedKey()) await api.signIn(key ?? api.storedKey());
    else if (!(await api.isOpen())) return connect();
  } catch (error) {
    if (error instanceof api.Unreachable) return fill(app, failure(error, start));
    return connect(error.message);
  }
  open();
}

function connect(problem = "") {
  leave();
  clock.stop();
  window.onhashchange = window.onbeforeunload = null;
  fill(app, connectView(open, problem));
  app.querySelector("[autofocus]")?.focus();
}

function open() {
  isLockedOut = false;
  const nav = tree();
  const main = h("main", { id: "main", tabindex: "-1" });
  const crumbs = h("nav", { class: "crumbs", "aria-label": "Where you are" });
  const isDrawerOpen = (is) => {
    app.classList.toggle("drawer-open", is);
    menu.setAttribute("aria-expanded", String(is));
  };
  const menu = iconButton("menu", "Databases", () => {
    isDrawerOpen(!app.classList.contains("drawer-open"));
    if (app.classList.contains("drawer-open")) nav.node.querySelector("a, button")?.focus();
  }, { class: "icon-button menu", "aria-expanded": "false", "aria-controls": "tree" });
  fill(app,
    h("a", { class: "skip", href: "#main", onclick: (event) => {
      event.preventDefault();
      main.focus();
    } }, "Skip to the content"),
    h("header", { class: "topbar" },
      menu,
      h("a", { class: "brand", href: link({}), "aria-label": "Perseid, overview" },
        h("img", { src: "meteor.svg", alt: "", width: "22", height: "22" }), h("span", {}, "Perseid")),
      crumbs,
      h("div", { class: "grow" }),
      clockButton(),
      api.isSigned()
        ? iconButton("out", "Forget the key", async () => {
          if (isUnsaved() && !(await mayDiscard())) return;
          api.signOut();
          connect();
        })
        : h("span", { class: "chip", title: "The server was started with --no-auth" }, "no key needed")),
    nav.node,
    h("div", { class: "veil", onclick: () => isDrawerOpen(false) }),
    main);
  nav.node.addEventListener("click", (event) => {
    if (event.target.closest("a")) isDrawerOpen(false);
  });
  app.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && app.classList.contains("drawer-open")) {
      isDrawerOpen(false);
      menu.focus();
    }
  });
  clock.start();

  window.onhashchange = async () => {
    if (location.hash === shown) return;
    if (isUnsaved()) {
      const wanted = location.hash;
      const wantedAt = placeInHistory();
      const isElsewhere = wantedAt !== shownAt;
      // What is shown stays, and so do the places before and after it.
      if (isElsewhere) await navigation.traverseTo(shownAt).finished.catch(() => {});
      else history.replaceState(null, "", shown || location.pathname);
      if (!(await mayDiscard())) return;
      leave();
      if (isElsewhere) return void navigation.traverseTo(wantedAt).finished.catch(show);
      history.pushState(null, "", wanted);
    }
    show();
  };
  window.onbeforeunload = (event) => {
    if (isUnsaved()) event.preventDefault();
  };

  function show() {
    if (isLockedOut) return connect();
    const place = parse(location.hash);
    if (place.isUnknown) history.replaceState(null, "", link(place)); // says what is shown instead
    const before = shown === null ? null : parse(shown);
    shown = location.hash;
    shownAt = placeInHistory();
    nav.select(place);
    fill(crumbs, trail(place));
    document.title = [place.container ?? place.database, "Perseid"].filter(Boolean).join(" – ");
    const isSame = before && view && ["database", "container", "tab"].every((part) => before[part] === place[part]);
    if (isSame && view.update) return view.update(place);
    leave();
    const hadFocus = main.contains(document.activeElement);
    const body = h("div", { class: "view" });
    if (place.container) {
      fill(main, tabs(place), body);
      main.querySelector(".tabs [aria-current]").scrollIntoView({ block: "nearest", inline: "nearest" }); // on a phone not all fit
      view = VIEWS[place.tab](body, place);
    } else {
      fill(main, body);
      view = place.database ? databaseView(body, place) : homeView(body);
    }
    main.scrollTop = 0;
    if (hadFocus && !main.contains(document.activeElement)) (main.querySelector(".tabs [aria-current]") ?? main).focus();
  }
  shown = null;
  show();
}

const placeInHistory = () => globalThis.navigation?.currentEntry?.key ?? null;
const isUnsaved = () => Boolean(view?.canLeave) && !view.canLeave();
const mayDiscard = () => confirm("Leave without saving?", "What you changed here is lost.", { yes: "Discard changes" });

function leave() {
  view?.dispose?.();
  view = null;
}

function trail({ database, container }) {
  const steps = [];
  if (database) steps.push(h("a", { href: link({ database }), "aria-current": container ? null : "page" }, database));
  if (container) steps.push(h("span", { class: "sep", "aria-hidden": "true" }, "/"), h("a", { href: link({ database, container }), "aria-current": "page" }, container));
  return steps;
}

function tabs(place) {
  return h("nav", { class: "tabs", "aria-label": "Container" },
    Object.entries(TABS).map(([tab, label]) =>
      h("a", { href: link({ ...place, tab, rest: [] }), "aria-current": tab === place.tab ? "page" : null }, label)));
}

const isHeld = () => isUnsaved() || document.querySelector("dialog[open]") !== null;

/** Another key is in use, and the page stays. */
function renewed() {
  isLockedOut = false;
  clock.start();
  view?.refresh?.();
  document.dispatchEvent(new Event("catalog"));
}

/** The key is no longer good. Text that is not saved, here or in a dialog, outlives the next one. */
async function refused({ detail }) {
  api.signOut();
  if (isAsking) return;
  if (!isHeld()) return connect(detail.message);
  isAsking = true;
  const isBack = await reconnect(detail.message);
  isAsking = false;
  isLockedOut = !isBack;
  if (isBack) {
    renewed();
  } else if (!isHeld()) {
    connect(detail.message);
  } // else the next attempt to save asks again, and so does leaving
}

document.addEventListener("unauthorized", refused);

// A key may also be handed to a page that is open; whoever reads the address next must not see it.
window.addEventListener("hashchange", (event) => {
  if (!KEY.test(location.hash)) return;
  event.stopImmediatePropagation();
  if (!isUnsaved()) return start();
  api.signIn(handedOver(shown)).then(renewed, (error) => toast(error.message, { kind: "bad" }));
});

start();
