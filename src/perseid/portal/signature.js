// Request signatures: HMAC-SHA256 with the account key.
// Browsers offer WebCrypto only to secure pages (HTTPS or localhost); other pages use the
// implementation below.

const encoder = new TextEncoder();

/** A function that signs a text with a base64 key; throws if the key is not base64. */
export async function signer(keyText, subtle = globalThis.crypto?.subtle) {
  const bytes = decodeBase64(keyText);
  if (!bytes.length) throw new Error("The key is empty.");
  if (!subtle) return async (text) => encodeBase64(hmac(bytes, encoder.encode(text)));
  const algorithm = { name: "HMAC", hash: "SHA-256" };
  const key = await subtle.importKey("raw", bytes, algorithm, false, ["sign"]);
  return async (text) =>
    encodeBase64(new Uint8Array(await subtle.sign("HMAC", key, encoder.encode(text))));
}

function decodeBase64(text) {
  return Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
}

function encodeBase64(bytes) {
  return btoa(String.fromCharCode(...bytes));
}

const BLOCK = 64;

function hmac(key, message) {
  const block = new Uint8Array(BLOCK);
  block.set(key.length > BLOCK ? sha256(key) : key);
  const inner = sha256(concat(block.map((byte) => byte ^ 0x36), message));
  return sha256(concat(block.map((byte) => byte ^ 0x5c), inner));
}

function concat(first, second) {
  const joined = new Uint8Array(first.length + second.length);
  joined.set(first);
  joined.set(second, first.length);
  return joined;
}

// The constants of the standard: fractional parts of the roots of the first primes.
const PRIMES = [];
for (let n = 2; PRIMES.length < 64; n++) if (PRIMES.every((p) => n % p)) PRIMES.push(n);
const fraction = (x) => ((x - Math.floor(x)) * 2 ** 32) >>> 0;
const START = PRIMES.slice(0, 8).map((p) => fraction(Math.sqrt(p)));
const ROUNDS = PRIMES.map((p) => fraction(Math.cbrt(p)));

const rotate = (x, n) => (x >>> n) | (x << (32 - n));

function sha256(message) {
  const view = padded(message);
  const state = [...START];
  for (let block = 0; block < view.byteLength; block += BLOCK) {
    const next = compress(state, schedule(view, block));
    next.forEach((x, i) => (state[i] = (state[i] + x) | 0));
  }
  const digest = new DataView(new ArrayBuffer(32));
  state.forEach((x, i) => digest.setInt32(4 * i, x));
  return new Uint8Array(digest.buffer);
}

/** The message with the padding and the length in bits, as a whole number of blocks. */
function padded(message) {
  const size = Math.ceil((message.length + 9) / BLOCK) * BLOCK;
  const view = new DataView(new ArrayBuffer(size));
  message.forEach((byte, i) => view.setUint8(i, byte));
  view.setUint8(message.length, 0x80);
  view.setUint32(size - 8, Math.floor(message.length / 2 ** 29));
  view.setUint32(size - 4, message.length << 3);
  return view;
}

function schedule(view, block) {
  const w = new Uint32Array(64);
  for (let i = 0; i < 16; i++) w[i] = view.getUint32(block + 4 * i);
  for (let i = 16; i < 64; i++) {
    const s0 = rotate(w[i - 15], 7) ^ rotate(w[i - 15], 18) ^ (w[i - 15] >>> 3);
    const s1 = rotate(w[i - 2], 17) ^ rotate(w[i - 2], 19) ^ (w[i - 2] >>> 10);
    w[i] = w[i - 16] + s0 + w[i - 7] + s1;
  }
  return w;
}

function compress(state, w) {
  let [a, b, c, d, e, f, g, h] = state;
  for (let i = 0; i < 64; i++) {
    const s1 = rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25);
    const t1 = (h + s1 + ((e & f) ^ (~e & g)) + ROUNDS[i] + w[i]) | 0;
    const s0 = rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22);
    const t2 = (s0 + ((a & b) ^ (a & c) ^ (b & c))) | 0;
    [h, g, f, e, d, c, b, a] = [g, f, e, (d + t1) | 0, c, b, a, (t1 + t2) | 0];
  }
  return [a, b, c, d, e, f, g, h];
}
