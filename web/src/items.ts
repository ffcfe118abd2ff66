// Resources with their rates, and the sources that they come from.

import type { Histogram, Readings, Resource, Source } from './api';

/** A resource of the last readings. */
export interface Item extends Resource {
  /** Type and labels, which identify the resource. */
  key: string;
  /** Counter → increase in a second; empty until two readings differ in time. */
  rates: Record<string, number>;
  /** Histogram → counts of the last minute, if that is known. */
  recent: Record<string, Histogram>;
  /** Whether a source of the resource failed or hangs: its values are old. */
  stale: boolean;
}

/** The resources of one answer by their type. */
export type Items = Map<string, Item[]>;

/** Values of a counter at one time. */
interface Sample {
  at: number;
  values: Record<string, number>;
  rates: Record<string, number>;
}

/** Samples of a histogram, oldest first. */
interface HistogramSample {
  at: number;
  counts: number[];
}

/** Readings closer to each other than this are the same ones. */
const SAME_MS = 300;
/** The period of [`Item.recent`]. */
const RECENT_MS = 60_000;

/** The sources of the kernel module that read a type of resource. Other types come from `kernel-status`. */
const KERNEL_SOURCES: Record<string, string[]> = {
  dataset: ['kernel-counters', 'kernel-datasets'],
  property: ['kernel-properties'],
  ARC: ['kernel-module'],
  'ARC access': ['kernel-module'],
  'ARC state': ['kernel-module'],
  prefetch: ['kernel-module'],
  'transaction wait': ['kernel-module'],
  'kernel module': ['kernel-module'],
  'kernel module release': ['kernel-module'],
  event: ['kernel-events'],
};

/** The sources of a resource. Empty for resources that no listed source has. */
export function sourcesOf(item: Resource, sources: Source[]): Source[] {
  const { engine, pool } = item.labels;
  if (engine === 'user' || (engine === undefined && item.type.startsWith('mount'))) {
    return sources.filter((source) => source.source === 'user-pool' && source.pool === pool);
  }
  if (item.type.startsWith('plan')) return sources.filter((source) => source.source.startsWith('plan'));
  if (engine !== 'kernel') return [];
  const names = KERNEL_SOURCES[item.type] ?? ['kernel-status'];
  return sources.filter((source) => names.includes(source.source) && (source.pool === '' || source.pool === pool));
}

/** Whether the values of a source are not the present ones. */
export function isStale(source: Source): boolean {
  return !source.up;
}

export function keyOf(resource: Resource): string {
  return `${resource.type}\u0000${Object.values(resource.labels).join('\u0000')}`;
}

/** Computes rates from the counters of successive readings. */
export class Rates {
  #samples = new Map<string, Sample>();
  #histograms = new Map<string, HistogramSample[]>();
  #lastHistograms = new Map<string, HistogramSample[]>();

  /** Makes items of readings that arrived at `now` (milliseconds). */
  update(readings: Readings, now: number): Items {
    const items: Items = new Map();
    this.#lastHistograms = this.#histograms;
    this.#histograms = new Map();
    const samples = new Map<string, Sample>();
    const memo = new Map<string, ReadTime>();
    for (const resource of readings.resources) {
      const { engine, pool } = resource.labels;
      const place = `${resource.type}/${engine}/${pool}`;
      let source = memo.get(place);
      if (source === undefined) {
        source = readAt(sourcesOf(resource, readings.sources), now);
        memo.set(place, source);
      }
      const key = keyOf(resource);
      const sample = nextSample(this.#samples.get(key), resource.values, source.at);
      if (sample !== undefined) samples.set(key, sample);
      const item: Item = Object.assign(resource, {
        key,
        rates: source.frozen ? {} : (sample?.rates ?? {}),
        recent: resource.histograms === undefined ? {} : this.#recent(key, resource.histograms, source.at),
        stale: source.stale,
      });
      const list = items.get(item.type);
      if (list === undefined) items.set(item.type, [item]);
      else list.push(item);
    }
    this.#samples = samples;
    return items;
  }

  /** The increase of histograms over the last minute, or over the time since the page was opened if that is shorter. */
  #recent(key: string, histograms: Record<string, Histogram>, at: number): Record<string, Histogram> {
    const recent: Record<string, Histogram> = {};
    for (const [name, { bounds, counts }] of Object.entries(histograms)) {
      const id = `${key}\u0000${name}`;
      let samples = this.#lastHistograms.get(id) ?? [];
      const last = samples.at(-1);
      const isReset = last !== undefined && last.counts.some((number, index) => number > (counts[index] ?? 0));
      if (isReset || (last !== undefined && last.counts.length !== counts.length)) samples = [];
      if (last === undefined || samples.length === 0 || at - last.at > SAME_MS) samples.push({ at, counts });
      while (samples.length > 2 && at - (samples[1]?.at ?? at) >= RECENT_MS) samples.shift();
      this.#histograms.set(id, samples);
      const first = samples[0];
      if (first !== undefined && samples.length > 1) {
        recent[name] = { bounds, counts: counts.map((number, index) => number - (first.counts[index] ?? 0)) };
      }
    }
    return recent;
  }
}

interface ReadTime {
  /** When the freshest source was read. */
  at: number;
  /** Whether a source is stale. */
  stale: boolean;
  /** Whether all sources are stale. */
  frozen: boolean;
}

function readAt(sources: Source[], now: number): ReadTime {
  const ages = sources.map((source) => source.age_seconds ?? 0);
  const age = ages.length === 0 ? 0 : Math.min(...ages);
  return { at: now - age * 1000, stale: sources.some(isStale), frozen: sources.length > 0 && sources.every(isStale) };
}

/** The sample of these values; undefined for a resource without counters. */
function nextSample(last: Sample | undefined, values: Record<string, number>, at: number): Sample | undefined {
  const names = Object.keys(values).filter((name) => name.endsWith('_total'));
  if (names.length === 0) return undefined;
  if (last !== undefined && at - last.at < SAME_MS) return last;
  const rates: Record<string, number> = {};
  for (const name of names) {
    const before = last?.values[name];
    const value = values[name] ?? 0;
    // A smaller value means that the counter started again.
    if (last !== undefined && before !== undefined && value >= before) rates[name] = ((value - before) * 1000) / (at - last.at);
  }
  return { at, values, rates };
}

/** The rate of the first of these counters that is known. */
export function rateOf(item: Item | undefined, ...names: string[]): number | undefined {
  for (const name of names) {
    const value = item?.rates[name];
    if (value !== undefined) return value;
  }
  return undefined;
}

/** Average duration of a request: the increase of the time by the increase of the number. Undefined without requests. */
export function averageOf(item: Item, time: string, number: string): number | undefined {
  const requests = item.rates[number];
  const seconds = item.rates[time];
  return requests === undefined || requests === 0 || seconds === undefined ? undefined : seconds / requests;
}

/** The sum of the known values; undefined if none is known. */
export function sum(values: (number | undefined)[]): number | undefined {
  const known = values.filter((value) => value !== undefined);
  return known.length === 0 ? undefined : known.reduce((total, value) => total + value, 0);
}
