// Reads and writes a file in the directory of its argument until it is killed.

import { closeSync, fsyncSync, openSync, readSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { randomFillSync } from 'node:crypto';

const BLOCK = 16 << 10;
const BLOCKS = 8192; // 128M: larger than the ARC, so that devices are read too

const file = openSync(join(process.argv[2], 'file'), 'w+');
const block = Buffer.alloc(BLOCK);
process.on('exit', () => closeSync(file));

let written = 0;
function step() {
  for (let index = 0; index < 32; index += 1) {
    randomFillSync(block, 0, BLOCK / 2);
    const at = written < BLOCKS ? written : Math.floor(Math.random() * BLOCKS);
    writeSync(file, block, 0, BLOCK, at * BLOCK);
    written += 1;
    readSync(file, block, 0, BLOCK, Math.floor(Math.random() * Math.min(written, BLOCKS)) * BLOCK);
  }
  fsyncSync(file);
  setTimeout(step, 20);
}
step();
