// A pool of the user-space engine under load, and `poolwright serve` that shows it. Everything is in a temporary directory.

import { execFileSync, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

const PROGRAM = process.env.POOLWRIGHT ?? new URL('../../target/release/poolwright', import.meta.url).pathname;

/** Time limit of waits in milliseconds, long enough for a busy machine. */
export const PATIENCE = 60_000;

/** Waits until the condition holds. */
export async function until(what, condition) {
  const end = Date.now() + PATIENCE;
  while (!(await condition())) {
    if (Date.now() > end) throw new Error(`timed out waiting until ${what}`);
    await sleep(100);
  }
}

/** A directory with a separate registry and sockets. */
export class Place {
  constructor() {
    this.dir = mkdtempSync(join(tmpdir(), 'poolwright-page-'));
    this.environment = { ...process.env, POOLWRIGHT_STATE_DIR: this.at('state'), POOLWRIGHT_RUNTIME_DIR: this.at('run') };
  }

  at(name) {
    return join(this.dir, name);
  }

  run(...words) {
    return execFileSync(PROGRAM, words, { cwd: this.dir, env: this.environment, encoding: 'utf8', timeout: PATIENCE });
  }

  remove() {
    rmSync(this.dir, { recursive: true, force: true });
  }
}

/** A mounted pool with a program that reads and writes. */
export class MountedPool {
  constructor(place) {
    this.place = place;
    place.run('pool', 'create', 'tank', 'mirror', 'a.img:1G', 'b.img:1G');
    for (const dataset of ['tank/db', 'tank/logs']) place.run('dataset', 'create', dataset);
    place.run('dataset', 'set', 'recordsize=16K', 'tank/db');
    mkdirSync(place.at('m'));
    this.pid = JSON.parse(place.run('mount', 'tank/db', 'm', '--background', '--arc', '64M', '--json')).pid;
    this.load = spawn(process.execPath, [new URL('load.mjs', import.meta.url).pathname, place.at('m')], { stdio: 'ignore' });
    for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => this.#leave());
  }

  /** Unmounts when the tests are interrupted. */
  #leave() {
    this.load.kill('SIGKILL');
    if (isAlive(this.pid)) this.resume();
    for (let attempt = 0; attempt < 50 && !unmount(this.place.at('m')); attempt += 1) execFileSync('sleep', ['0.1']);
    this.place.remove();
    process.exit(1);
  }

  hang() {
    process.kill(this.pid, 'SIGSTOP');
  }

  resume() {
    process.kill(this.pid, 'SIGCONT');
  }

  async remove() {
    if (isAlive(this.pid)) this.resume();
    this.load.kill('SIGKILL');
    await until('it is unmounted', () => unmount(this.place.at('m')) || !isMounted(this.place.at('m')));
    // If a process that was started meanwhile has another mount namespace, its copy of the mount keeps the owner alive.
    for (let wait = 0; wait < 50 && isAlive(this.pid); wait += 1) await sleep(100);
    if (isAlive(this.pid)) process.kill(this.pid, 'SIGTERM');
    await until('the owner has ended', () => !isAlive(this.pid));
  }
}

function isAlive(pid) {
  try {
    return !/\) [ZX]/.test(readFileSync(`/proc/${pid}/stat`, 'utf8'));
  } catch {
    return false;
  }
}

function isMounted(dir) {
  return readFileSync('/proc/self/mounts', 'utf8').includes(` ${dir} `);
}

function unmount(dir) {
  const [program, ...options] = process.getuid() === 0 ? ['umount'] : ['fusermount3', '-u'];
  try {
    execFileSync(program, [...options, dir], { stdio: 'ignore', timeout: PATIENCE });
    return true;
  } catch {
    return false;
  }
}

/** The server. */
export class Exporter {
  /** Starts it; `listen` is the address of a server that ended, or a free one. */
  static async start(place, { token, listen = '127.0.0.1:0' } = {}) {
    const words = ['serve', '--listen', listen, '--timeout', '1s'];
    if (token !== undefined) {
      writeFileSync(place.at('token'), `${token}\n`);
      words.push('--token-file', 'token');
    }
    const process = spawn(PROGRAM, words, { cwd: place.dir, env: place.environment, stdio: ['ignore', 'pipe', 'inherit'] });
    const line = await new Promise((resolve, reject) => {
      process.stdout.once('data', (data) => resolve(String(data)));
      process.once('exit', (code) => reject(new Error(`poolwright serve ended with status ${code}`)));
    });
    return new Exporter(process, line.split('\n')[0].replace(/\/metrics$/, ''));
  }

  constructor(process, origin) {
    this.process = process;
    this.origin = origin;
  }

  async stop() {
    const ended = new Promise((resolve) => this.process.once('exit', resolve));
    this.process.kill('SIGTERM');
    await ended;
  }
}
