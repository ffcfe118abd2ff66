/** The parts that all Java drivers share: the protocol of docs/lab.md, latencies, and the exit of a driver. */
package poolwright.driver;
