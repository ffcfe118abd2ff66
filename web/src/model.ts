// Pools, vdevs and ARCs, put together from the items.

import { averageOf, type Item, type Items, rateOf, sum } from './items';

export interface Vdev {
  item: Item;
  name: string;
  /** A short name for tables: the last part of a path. */
  title: string;
  /** `disk`, `mirror`, …; empty if the source does not tell. */
  type: string;
  class: string;
  state: string;
  /** Distance from the root of the tree. */
  depth: number;
  /** Whether other vdevs are below it. */
  hasChildren: boolean;
}

export interface Pool {
  item: Item;
  engine: string;
  name: string;
  /** The present state; `closed` for a pool that no process has open. */
  state: string;
  vdevs: Vdev[];
}

export const V = {
  readBytes: 'poolwright_vdev_read_bytes_total',
  writeBytes: 'poolwright_vdev_written_bytes_total',
  reads: 'poolwright_vdev_reads_total',
  writes: 'poolwright_vdev_writes_total',
  readTime: 'poolwright_vdev_read_time_seconds_total',
  writeTime: 'poolwright_vdev_write_time_seconds_total',
  readErrors: 'poolwright_vdev_read_errors_total',
  writeErrors: 'poolwright_vdev_write_errors_total',
  checksumErrors: 'poolwright_vdev_checksum_errors_total',
} as const;

export interface Flow {
  readBytes?: number;
  writeBytes?: number;
  reads?: number;
  writes?: number;
  readLatency?: number;
  writeLatency?: number;
}

/** Name of the engine for people. */
export function engineTitle(engine: string): string {
  if (engine === 'kernel') return 'OpenZFS in the kernel';
  return engine === 'user' ? 'user-space engine' : engine;
}

/** The items of a type that belong to a pool. */
export function ofPool(items: Items, type: string, pool: Item): Item[] {
  const { engine, pool: name } = pool.labels;
  return (items.get(type) ?? []).filter((item) => item.labels.pool === name && (item.labels.engine ?? 'user') === engine);
}

/** All pools. */
export function pools(items: Items): Pool[] {
  return (items.get('pool') ?? []).map((item) => {
    const state = ofPool(items, 'pool state', item).find((state) => state.values.poolwright_pool_state === 1);
    const isOpen = item.values.poolwright_pool_open !== 0;
    return {
      item,
      engine: item.labels.engine ?? '',
      name: item.labels.pool ?? '',
      state: isOpen ? (state?.labels.state ?? '') : 'closed',
      vdevs: vdevs(items, item),
    };
  });
}

function vdevs(items: Items, pool: Item): Vdev[] {
  const list = ofPool(items, 'vdev', pool);
  const places = new Map(ofPool(items, 'vdev place', pool).map((item) => [vdevKey(item), item.labels]));
  const states = new Map(
    ofPool(items, 'vdev state', pool)
      .filter((item) => item.values.poolwright_vdev_state === 1)
      .map((item) => [vdevKey(item), item.labels.state ?? '']),
  );
  const parents = new Set([...places.values()].map((labels) => labels.parent));
  const titles = shortTitles(list.map((item) => item.labels.vdev ?? ''));
  const vdevs = list.map((item) => {
    const name = item.labels.vdev ?? '';
    const depth = depthOf(item, places);
    return {
      item,
      name,
      title: titles.get(name) ?? name,
      type: places.get(vdevKey(item))?.type ?? '',
      class: item.labels.class ?? '',
      state: states.get(vdevKey(item)) ?? '',
      depth,
      hasChildren: item.labels.class === 'root' || parents.has(name),
    };
  });
  // Without places, a vdev has children if deeper ones follow it.
  return vdevs.map((vdev, index) => ({ ...vdev, hasChildren: vdev.hasChildren || (vdevs[index + 1]?.depth ?? 0) > vdev.depth }));
}

function vdevKey(item: Item): string {
  return `${item.labels.class}/${item.labels.vdev}`;
}

/** The depth by the parents if they are known. Otherwise only top-level vdevs have a size. */
function depthOf(item: Item, places: Map<string, Record<string, string>>): number {
  if (item.labels.class === 'root') return 0;
  const byName = new Map([...places.values()].map((labels) => [labels.vdev, labels]));
  let depth = 0;
  for (let at = byName.get(item.labels.vdev); at?.parent && depth < 8; at = byName.get(at.parent)) depth += 1;
  if (depth > 0) return depth;
  return item.values.poolwright_vdev_size_bytes === undefined ? 2 : 1;
}

/** The last part of each path, unless two paths have the same one. */
export function shortTitles(names: string[]): Map<string, string> {
  const seen = new Map<string, number>();
  const last = (name: string) => name.slice(name.lastIndexOf('/') + 1) || name;
  for (const name of names) seen.set(last(name), (seen.get(last(name)) ?? 0) + 1);
  return new Map(names.map((name) => [name, seen.get(last(name)) === 1 ? last(name) : name]));
}

/** What moves through one vdev. */
export function flowOf(item: Item): Flow {
  return {
    readBytes: item.rates[V.readBytes],
    writeBytes: item.rates[V.writeBytes],
    reads: item.rates[V.reads],
    writes: item.rates[V.writes],
    readLatency: averageOf(item, V.readTime, V.reads),
    writeLatency: averageOf(item, V.writeTime, V.writes),
  };
}

/** What moves through a pool: the figures of its root, or else the sum of its devices. */
export function poolFlow(pool: Pool): Flow {
  const root = pool.vdevs.find((vdev) => vdev.class === 'root');
  if (root !== undefined && root.item.rates[V.writes] !== undefined) return flowOf(root.item);
  const leaves = pool.vdevs.filter((vdev) => !vdev.hasChildren).map((vdev) => vdev.item);
  const total = (name: string) => sum(leaves.map((item) => item.rates[name]));
  const average = (time: string, number: string) => {
    const requests = total(number);
    const seconds = total(time);
    return requests === undefined || requests === 0 || seconds === undefined ? undefined : seconds / requests;
  };
  return {
    readBytes: total(V.readBytes),
    writeBytes: total(V.writeBytes),
    reads: total(V.reads),
    writes: total(V.writes),
    readLatency: average(V.readTime, V.reads),
    writeLatency: average(V.writeTime, V.writes),
  };
}

/** Sum of an error counter over the devices of a pool. */
export function poolErrors(pool: Pool, name: string): number | undefined {
  return sum(pool.vdevs.filter((vdev) => !vdev.hasChildren).map((vdev) => vdev.item.values[name]));
}

export interface Arc {
  item: Item;
  title: string;
  accesses: Item[];
  states: Item[];
  /** Share of the demand accesses since the last readings that found their block in memory. */
  hitRatio?: number;
}

const ACCESSES = 'poolwright_arc_accesses_total';

/** Hits by hits and misses, since the last readings or since the start. Undefined without accesses. */
export function hitRatio(accesses: Item[], value: (item: Item) => number | undefined): number | undefined {
  const total = sum(accesses.map(value));
  const hits = sum(accesses.filter((item) => item.labels.result === 'hit').map(value));
  return total === undefined || total === 0 || hits === undefined ? undefined : hits / total;
}

/** All ARCs. */
export function arcs(items: Items): Arc[] {
  return (items.get('ARC') ?? []).map((item) => {
    const same = (other: Item) => other.labels.engine === item.labels.engine && other.labels.pool === item.labels.pool;
    const accesses = (items.get('ARC access') ?? []).filter(same);
    const demand = accesses.filter((access) => access.labels.type?.startsWith('demand'));
    return {
      item,
      title: item.labels.pool ? `pool ${item.labels.pool}` : 'the kernel',
      accesses,
      states: (items.get('ARC state') ?? []).filter(same),
      hitRatio: hitRatio(demand, (access) => access.rates[ACCESSES]),
    };
  });
}

export interface Dataset {
  item: Item;
  name: string;
  pool: string;
  properties: Item[];
  readRate?: number;
  writeRate?: number;
}

/** All datasets, with their properties and rates. The rates of the user-space engine are those of its mounts. */
export function datasets(items: Items): Dataset[] {
  const group = (type: string) => {
    const groups = new Map<string, Item[]>();
    for (const item of items.get(type) ?? []) {
      const key = `${item.labels.engine ?? 'user'}/${item.labels.dataset}`;
      const list = groups.get(key);
      if (list === undefined) groups.set(key, [item]);
      else list.push(item);
    }
    return groups;
  };
  const properties = group('property');
  const mounts = group('mount');
  return (items.get('dataset') ?? []).map((item) => {
    const key = `${item.labels.engine}/${item.labels.dataset}`;
    const mounted = mounts.get(key) ?? [];
    const total = (name: string) => sum(mounted.map((mount) => mount.rates[name]));
    return {
      item,
      name: item.labels.dataset ?? '',
      pool: item.labels.pool ?? '',
      properties: properties.get(key) ?? [],
      readRate: rateOf(item, 'poolwright_dataset_read_bytes_total') ?? total('poolwright_mount_read_bytes_total'),
      writeRate: rateOf(item, 'poolwright_dataset_written_bytes_total') ?? total('poolwright_mount_written_bytes_total'),
    };
  });
}
