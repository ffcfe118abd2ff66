/**
 * A small versioned key-value store with pluggable storage engines, and the workloads that drive it: the driver
 * of the campaign kv-engines.
 *
 * <p>{@link poolwright.kv.Engine} is the interface of the engines; {@link poolwright.kv.Store} adds versions, identically for
 * all engines; {@link poolwright.kv.Setting} is the table of settings.
 */
package poolwright.kv;
