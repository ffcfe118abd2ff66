// Light and dark colours: as the system wants them, or as the user chose.

import { useEffect, useState } from 'preact/hooks';

export type Choice = 'system' | 'light' | 'dark';

const CHOICE = 'poolwright-theme';
const listeners = new Set<() => void>();
const system = matchMedia('(prefers-color-scheme: dark)');

export function choice(): Choice {
  const stored = localStorage.getItem(CHOICE);
  return stored === 'light' || stored === 'dark' ? stored : 'system';
}

export function choose(theme: Choice): void {
  localStorage.setItem(CHOICE, theme);
  apply();
}

/** Sets the attribute that the style sheet examines. */
export function apply(): void {
  const theme = choice();
  if (theme === 'system') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  for (const listener of listeners) listener();
}

system.addEventListener('change', apply);

/** The theme that is shown now. */
export function useTheme(): 'light' | 'dark' {
  const present = () => {
    const theme = choice();
    return theme === 'system' ? (system.matches ? 'dark' : 'light') : theme;
  };
  const [theme, setTheme] = useState(present);
  useEffect(() => {
    const listener = () => setTheme(present());
    listeners.add(listener);
    return () => void listeners.delete(listener);
  }, []);
  return theme;
}
