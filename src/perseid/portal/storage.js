// Values that the browser keeps. Its storage may be switched off or full: then nothing is kept.

/** The stored value, or null. */
export function readStored(key, storage = "localStorage") {
  try {
    return JSON.parse(window[storage].getItem(key));
  } catch {
    return null;
  }
}

/** Stores a value as JSON; false if the browser does not allow it. */
export function store(key, value, storage = "localStorage") {
  try {
    window[storage].setItem(key, JSON.stringify(value));
    return true;
  } catch {
    return false;
  }
}
