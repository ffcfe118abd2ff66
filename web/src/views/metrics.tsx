// All metrics that the server has, with their meanings and values.

import { useMemo, useState } from 'preact/hooks';
import type { Family } from '../api';
import { count, metric as format } from '../format';
import type { Items } from '../items';
import { type Column, Filter, Table, useMonitor } from '../ui';

interface Row {
  family: Family;
  /** How many resources have the metric. */
  resources: number;
  /** The value, if one resource has the metric. */
  value: string;
}

function rows(families: Iterable<Family>, items: Items): Row[] {
  return [...families].map((family) => {
    const having = (items.get(family.resource) ?? []).filter((item) => item.values[family.name] !== undefined || item.histograms?.[family.name] !== undefined);
    const [only] = having;
    const value = having.length === 1 && only !== undefined ? format(family.name, only.values[family.name], family.help) : '';
    return { family, resources: having.length, value };
  });
}

const COLUMNS: Column<Row>[] = [
  { id: 'name', title: 'Metric and meaning', cell: ({ family }) => <span class="wide"><code>{family.name}</code><span class="help">{family.help}</span></span>, sort: ({ family }) => family.name },
  { id: 'of', title: 'Of each', cell: ({ family }) => family.resource, sort: ({ family }) => family.resource },
  { id: 'number', title: 'How many', numeric: true, cell: ({ resources }) => count(resources), sort: ({ resources }) => resources },
  { id: 'value', title: 'Value, if only one', numeric: true, cell: ({ value }) => value },
];

export function Metrics() {
  const { families, items } = useMonitor();
  const [filter, setFilter] = useState('');
  const all = useMemo(() => rows(families.values(), items), [families, items]);
  const words = filter.toLowerCase().split(/\s+/);
  const shown = all.filter(({ family }) => words.every((word) => `${family.name} ${family.resource} ${family.help}`.toLowerCase().includes(word)));
  return (
    <>
      <h2>All metrics</h2>
      <p>These names are those of <a href="/metrics">/metrics</a>, which Prometheus reads, and of <a href="/api/v1/readings">/api/v1/readings</a>.</p>
      <div class="tools">
        <Filter label="Filter by name or meaning" value={filter} change={setFilter} />
        <span role="status">{count(shown.length)} of {count(all.length)} metrics</span>
      </div>
      <Table label="Metrics" rows={shown} columns={COLUMNS} keyOf={({ family }) => family.name} pageSize={25} />
    </>
  );
}
