// Readings of a host with pools of the kernel, as /api/v1/readings gives them. Counters increase with each answer.

const LATENCY_BOUNDS = Array.from({ length: 16 }, (_, power) => 4 ** power * 1e-9 * 256);
const SIZE_BOUNDS = Array.from({ length: 16 }, (_, power) => 2 ** (power + 9) - 1);
const G = 2 ** 30;

function bell(centre, width, buckets, total) {
  return Array.from({ length: buckets }, (_, index) => Math.round(total * Math.exp(-(((index - centre) / width) ** 2))));
}

function vdev(name, kind, parent, options) {
  const { step, state = 'ONLINE', errors = 0, size, busy = 1 } = options;
  const labels = { class: options.class ?? 'normal', engine: 'kernel', pool: 'data', vdev: name };
  const values = {
    poolwright_vdev_read_errors_total: 0,
    poolwright_vdev_write_errors_total: errors,
    poolwright_vdev_checksum_errors_total: 0,
    poolwright_vdev_read_bytes_total: 3e6 * busy * step,
    poolwright_vdev_written_bytes_total: 21e6 * busy * step,
    poolwright_vdev_reads_total: 200 * busy * step,
    poolwright_vdev_writes_total: 900 * busy * step,
    poolwright_vdev_read_time_seconds_total: 0.4 * busy * step,
    poolwright_vdev_write_time_seconds_total: 2.7 * busy * step,
  };
  if (size !== undefined) Object.assign(values, { poolwright_vdev_size_bytes: size, poolwright_vdev_allocated_bytes: size * 0.84 });
  return [
    { type: 'vdev', labels, values },
    { type: 'vdev state', labels: { ...labels, state: 'OFFLINE' }, values: { poolwright_vdev_state: 0 } },
    { type: 'vdev state', labels: { ...labels, state }, values: { poolwright_vdev_state: 1 } },
    { type: 'vdev place', labels: { ...labels, type: kind, parent }, values: { poolwright_vdev_info: 1 } },
  ];
}

function histograms(step) {
  const labels = { class: 'normal', engine: 'kernel', pool: 'data', vdev: '/dev/disk/by-id/nvme-A' };
  const queues = [['total_read', 6, 2], ['total_write', 7.5, 1.5], ['disk_read', 5.5, 1.5], ['disk_write', 6.5, 1.2], ['sync_write', 2, 1]];
  const latencies = queues.map(([queue, centre, width]) => ({
    type: 'vdev latency',
    labels: { ...labels, queue },
    values: {},
    histograms: { poolwright_vdev_latency_seconds: { bounds: LATENCY_BOUNDS, counts: bell(centre, width, 17, 400 * step) } },
  }));
  const sizes = [['sync_write', 5], ['async_write', 8], ['sync_read', 4]].map(([op, centre]) => ({
    type: 'vdev request size',
    labels: { ...labels, op },
    values: {},
    histograms: { poolwright_vdev_request_size_bytes: { bounds: SIZE_BOUNDS, counts: bell(centre, 2, 17, 300 * step) } },
  }));
  return [...latencies, ...sizes];
}

function arc(step) {
  const labels = { engine: 'kernel', pool: '' };
  const states = { anon: 0.02, mru: 1.9, mfu: 3.1, mru_ghost: 2.2, mfu_ghost: 0.9, uncached: 0 };
  const accesses = [['demand_data', 'hit', 9000], ['demand_data', 'miss', 700], ['demand_metadata', 'hit', 4000], ['demand_metadata', 'miss', 20], ['prefetch_data', 'hit', 30], ['prefetch_data', 'miss', 60]];
  return [
    {
      type: 'ARC',
      labels,
      values: {
        poolwright_arc_size_bytes: (5 + 0.3 * Math.sin(step)) * G,
        poolwright_arc_target_bytes: 5.5 * G,
        poolwright_arc_max_bytes: 8 * G,
        poolwright_arc_min_bytes: G / 2,
        poolwright_arc_no_grow: 1,
        poolwright_arc_mru_ghost_hits_total: 30 * step,
      },
    },
    ...Object.entries(states).map(([state, size]) => ({ type: 'ARC state', labels: { ...labels, state }, values: { poolwright_arc_state_size_bytes: size * G } })),
    ...accesses.map(([type, result, rate]) => ({ type: 'ARC access', labels: { ...labels, type, result }, values: { poolwright_arc_accesses_total: rate * step } })),
  ];
}

function plan() {
  const plan = '/etc/poolwright/shop.json';
  const labels = { plan, role: 'tables', path: '/srv/shop', dataset: 'data/shop' };
  const property = (property, planned, present) => ({
    type: 'plan property',
    labels: { ...labels, property, planned, present },
    values: { poolwright_plan_property_kept: planned === present ? 1 : 0 },
  });
  const promise = (metric, value, present) => ({
    type: 'plan promise',
    labels: { ...labels, metric },
    values: { poolwright_plan_promised_value: value, poolwright_plan_promised_low: value * 0.9, poolwright_plan_promised_high: value * 1.1, poolwright_plan_present_value: present },
  });
  return [
    { type: 'plan', labels: { plan }, values: { poolwright_plan_created_time_seconds: 1_700_000_000 } },
    { type: 'plan role', labels, values: { poolwright_plan_examined_files: 40, poolwright_plan_files_with_other_block_size: 3 } },
    property('recordsize', '16K', '128K'),
    property('compression', 'zstd-3', 'zstd-3'),
    promise('compression_ratio', 2.4, 2.35),
    promise('write_amplification', 1.8, 3.1),
  ];
}

/** Datasets of the pool `data`, each with a property. */
function datasets(number, step) {
  return Array.from({ length: number }, (_, index) => {
    const dataset = index === 0 ? 'data' : `data/customer-${String(index).padStart(5, '0')}`;
    const labels = { engine: 'kernel', pool: 'data', dataset };
    const used = (index * 7919) % 997;
    const values = {
      poolwright_dataset_used_bytes: used * 2 ** 22,
      poolwright_dataset_available_bytes: 300 * G,
      poolwright_dataset_referenced_bytes: used * 2 ** 21,
      poolwright_dataset_logical_used_bytes: used * 2 ** 23,
      poolwright_dataset_compression_ratio: 1 + (index % 200) / 100,
      poolwright_dataset_used_by_snapshots_bytes: used * 2 ** 19,
      poolwright_dataset_snapshots: index % 30,
      poolwright_dataset_read_bytes_total: (index % 50) * 1e5 * step,
      poolwright_dataset_written_bytes_total: (index % 70) * 1e5 * step,
      poolwright_dataset_reads_total: (index % 50) * 10 * step,
      poolwright_dataset_writes_total: (index % 70) * 10 * step,
    };
    const property = { ...labels, property: 'recordsize', value: index % 2 === 0 ? '16384' : '1048576', source: index % 3 === 0 ? 'local' : 'inherited from data' };
    return [{ type: 'dataset', labels, values }, { type: 'property', labels: property, values: { poolwright_dataset_property: 1 } }];
  }).flat();
}

/** The readings of the answer number `step`, which starts at 1. */
export function readings(step, { number = 12 } = {}) {
  const pool = { engine: 'kernel', pool: 'data' };
  const started = Math.round(Date.now() / 1000) - 3600;
  return {
    sources: [
      { source: 'kernel-counters', pool: 'data', up: true, age_seconds: 0.01 },
      { source: 'kernel-module', pool: '', up: true, age_seconds: 0.01 },
      { source: 'kernel-status', pool: 'data', up: true, age_seconds: 0.01 },
      { source: 'kernel-snapshots', pool: 'data', up: false, age_seconds: 131, error: 'zfs list: cannot open data: pool I/O is currently suspended' },
    ],
    resources: [
      { type: 'pool state', labels: { ...pool, state: 'ONLINE' }, values: { poolwright_pool_state: 0 } },
      { type: 'pool state', labels: { ...pool, state: 'DEGRADED' }, values: { poolwright_pool_state: 1 } },
      {
        type: 'pool',
        labels: pool,
        values: {
          poolwright_pool_open: 1, poolwright_pool_size_bytes: 1000 * G, poolwright_pool_allocated_bytes: 840 * G,
          poolwright_pool_free_bytes: 160 * G, poolwright_pool_fragmentation_ratio: 0.41, poolwright_pool_data_errors: 2,
          poolwright_pool_scrub_running: 1, poolwright_pool_resilver_running: 0, poolwright_pool_scan_to_examine_bytes: 840 * G,
          poolwright_pool_scan_examined_bytes: 300 * G, poolwright_pool_scan_errors: 1, poolwright_pool_scan_start_time_seconds: started,
        },
      },
      ...vdev('data', 'root', '', { step, class: 'root', size: 1000 * G, state: 'DEGRADED', busy: 3 }),
      ...vdev('mirror-0', 'mirror', 'data', { step, size: 1000 * G, state: 'DEGRADED', busy: 2 }),
      ...vdev('/dev/disk/by-id/nvme-A', 'disk', 'mirror-0', { step }),
      ...vdev('/dev/disk/by-id/nvme-B', 'disk', 'mirror-0', { step, state: 'FAULTED', errors: 17 }),
      ...vdev('/dev/disk/by-id/nvme-log', 'disk', 'data', { step, class: 'log', size: 16 * G }),
      ...histograms(step),
      ...arc(step),
      ...plan(),
      ...datasets(number, step),
    ],
  };
}

/** The alerts that fire. */
export const alerts = {
  rules: 34,
  alerts: [
    { name: 'PoolNearlyFull', severity: 'warning', summary: 'Pool data is 84 % full.', labels: { pool: 'data' }, value: 0.84, since_seconds: 7200 },
    { name: 'VdevFaulted', severity: 'critical', summary: 'Vdev nvme-B of pool data is FAULTED.', labels: { pool: 'data', vdev: 'nvme-B' }, value: 1, since_seconds: 95 },
  ],
};
