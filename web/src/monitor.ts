// Polls the server, and keeps what the page shows.

import { type Alerts, type Definitions, type Family, fetchJson, NotFound, type Readings, type Source, TokenNeeded } from './api';
import { History } from './history';
import { type Items, Rates } from './items';
import { arcs, poolFlow, pools } from './model';

const TOKEN = 'poolwright-token';
/** A server without alerts is asked again after this time. */
const ALERTS_AGAIN_MS = 5 * 60_000;
/** The page spends at most one part in this many of its time with reading answers. */
const IDLE_PARTS = 8;

export interface Failure {
  since: number;
  message: string;
}

export class Monitor {
  items: Items = new Map();
  sources: Source[] = [];
  /** Undefined if the server has no alerts. */
  alerts: Alerts | undefined;
  families = new Map<string, Family>();
  definitions: Definitions | undefined;
  history = new History();
  /** When the last answer arrived; undefined before the first. */
  updated: number | undefined;
  failure: Failure | undefined;
  tokenNeeded = false;
  /** The server refused the token that it was sent. */
  tokenRefused = false;
  paused = false;
  interval = 2000;
  /** The time between the last two requests, which is longer than the interval if the answers are very long. */
  actualInterval = 2000;

  #rates = new Rates();
  #listeners = new Set<() => void>();
  #timer: number | undefined;
  #isPolling = false;
  #alertsAfter = 0;

  start(): void {
    document.addEventListener('visibilitychange', () => this.#schedule(0));
    this.#schedule(0);
  }

  /** Calls the listener after each change; returns a function that ends that. */
  subscribe(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  setPaused(paused: boolean): void {
    this.paused = paused;
    this.#schedule(0);
    this.#changed();
  }

  setInterval(milliseconds: number): void {
    this.interval = milliseconds;
    this.#schedule(0);
    this.#changed();
  }

  setToken(token: string): void {
    // Other characters cannot be sent in a header.
    if (!/^[\x21-\x7e]+$/.test(token)) {
      this.tokenRefused = true;
      this.#changed();
      return;
    }
    sessionStorage.setItem(TOKEN, token);
    this.tokenNeeded = false;
    this.#schedule(0);
    this.#changed();
  }

  #changed(): void {
    for (const listener of this.#listeners) listener();
  }

  #schedule(delay: number): void {
    clearTimeout(this.#timer);
    if (this.paused || this.tokenNeeded || document.hidden) return;
    this.#timer = setTimeout(() => void this.#poll(), delay);
  }

  async #poll(): Promise<void> {
    if (this.#isPolling) return;
    this.#isPolling = true;
    let work = 0;
    try {
      const token = sessionStorage.getItem(TOKEN);
      if (this.definitions === undefined) await this.#define(token);
      const readings = await fetchJson<Readings>('/api/v1/readings', token);
      await this.#askForAlerts(token);
      const began = performance.now();
      this.#accept(readings);
      work = performance.now() - began;
    } catch (error) {
      this.#failed(error);
    }
    this.#isPolling = false;
    const began = performance.now();
    this.#changed();
    work += performance.now() - began;
    this.actualInterval = Math.max(this.interval, Math.ceil((work * IDLE_PARTS) / 1000) * 1000);
    this.#schedule(this.actualInterval);
  }

  async #define(token: string | null): Promise<void> {
    try {
      this.definitions = await fetchJson<Definitions>('/api/v1/families', token);
      this.families = new Map(this.definitions.families.map((family) => [family.name, family]));
    } catch (error) {
      if (!(error instanceof NotFound)) throw error;
    }
  }

  async #askForAlerts(token: string | null): Promise<void> {
    if (Date.now() < this.#alertsAfter) return;
    try {
      this.alerts = await fetchJson<Alerts>('/api/v1/alerts', token);
    } catch (error) {
      if (!(error instanceof NotFound)) throw error;
      this.alerts = undefined;
      this.#alertsAfter = Date.now() + ALERTS_AGAIN_MS;
    }
  }

  #accept(readings: Readings): void {
    const now = Date.now();
    this.items = this.#rates.update(readings, now);
    this.sources = readings.sources;
    this.updated = now;
    this.failure = undefined;
    this.tokenRefused = false;
    this.history.add(now, this.actualInterval, historyRow(this.items));
  }

  #failed(error: unknown): void {
    if (error instanceof TokenNeeded) {
      this.tokenNeeded = true;
      this.tokenRefused = sessionStorage.getItem(TOKEN) !== null;
      sessionStorage.removeItem(TOKEN);
      return;
    }
    this.failure = { since: this.failure?.since ?? Date.now(), message: error instanceof Error ? error.message : String(error) };
  }
}

/** The values that charts show: those of pools and of ARCs. Stale values are left out. */
function historyRow(items: Items): Map<string, number | undefined> {
  const row = new Map<string, number | undefined>();
  for (const pool of pools(items)) {
    for (const [name, value] of Object.entries(poolFlow(pool))) row.set(`${pool.item.key}/${name}`, value);
  }
  for (const arc of arcs(items)) {
    if (arc.item.stale) continue;
    const { poolwright_arc_size_bytes: size, poolwright_arc_target_bytes: target, poolwright_arc_max_bytes: max } = arc.item.values;
    for (const [name, value] of Object.entries({ size, target, max, hitRatio: arc.hitRatio })) row.set(`${arc.item.key}/${name}`, value);
  }
  return row;
}
