/** What every driver of a database in the JVM shares: docs/lab.md's protocol, latencies, and how a driver ends. */
package poolwright.driver;
