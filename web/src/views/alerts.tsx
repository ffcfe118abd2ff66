// Alerts that fire.

import type { Alert } from '../api';
import { duration } from '../format';
import { Badge, useMonitor } from '../ui';

const SEVERITIES = ['critical', 'warning'];

function order(alert: Alert): number {
  const index = SEVERITIES.indexOf(alert.severity);
  return index < 0 ? SEVERITIES.length : index;
}

export function AlertList() {
  const { alerts } = useMonitor();
  if (alerts === undefined) return null;
  const sorted = [...alerts.alerts].sort((a, b) => order(a) - order(b) || a.name.localeCompare(b.name));
  return (
    <>
      <h2>Alerts</h2>
      <p>{sorted.length === 0 ? 'No alert fires.' : `${sorted.length} alerts fire.`}
        {alerts.left_out > 0 && ` ${alerts.left_out} more values exceed a limit; the server follows at most 500 of each rule.`} The server checks {alerts.rules} rules.</p>
      <ul class="alerts">
        {sorted.map((alert) => (
          <li key={`${alert.name}${JSON.stringify(alert.labels)}`} class={alert.severity}>
            <div class="with-badges">
              <Badge mood={alert.severity === 'critical' ? 'bad' : 'warning'}>{alert.severity}</Badge>
              <strong>{alert.name}</strong>
              {alert.since_seconds !== undefined && <span class="muted">for {duration(alert.since_seconds)}</span>}
            </div>
            <p>{alert.summary}</p>
            <p class="muted">{Object.entries(alert.labels).map(([name, value]) => `${name}: ${value}`).join(', ')}</p>
          </li>
        ))}
      </ul>
    </>
  );
}
