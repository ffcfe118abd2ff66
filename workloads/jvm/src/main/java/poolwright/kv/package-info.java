/**
 * A small versioned key-value store with pluggable storage engines, and the workloads that drive it: the driver
 * of the campaign kv-engines.
 *
 * <p>{@link poolwright.kv.Engine} is bytes for bytes; {@link poolwright.kv.Store} puts versions on top of it, the same
 * for all engines; {@link poolwright.kv.Setting} is the table of everything that can be set.
 */
package poolwright.kv;
