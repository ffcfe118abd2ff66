/*
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Measures what a thread did between two recorded operations: CPU time, waiting for a CPU, and which wakeup
 * ended its last sleep.
 *
 * The scheduler updates a thread's sum_exec_runtime only from time to time. While the thread runs, the CPU
 * time used so far is sum_exec_runtime + (clock_task of its CPU - exec_start). A CPU's clock_task lags its
 * clock by the time that interrupts and the hypervisor took, and this lag differs between CPUs. With the lag
 * added, exec_start is in a clock that all CPUs share and that runs as fast as bpf_ktime_get_ns(). Therefore,
 * the increase of `idle` below between two instants at which the thread runs is the time in which it used no
 * CPU; the offset between the two clocks cancels.
 */
#pragma once
#include "follow.h"

#define PF_KTHREAD 0x00200000

/* What interrupts the threads of this CPU: the indexes of `interrupted`. */
enum { BY_DEVICE, BY_NETWORK, INTERRUPTIONS };

#define NET_RX_SOFTIRQ 3

/* Whether an interrupt handler of a timer or device, and whether the network's softirq, runs on this CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, INTERRUPTIONS);
	__type(key, u32);
	__type(value, u32);
} interrupted SEC(".maps");

/* Returns by how much clock_task lags the clock of the CPU that `task` runs on, in nanoseconds. */
static __always_inline u64 clock_lag(struct task_struct *task)
{
	struct rq *rq;

	if (!bpf_core_field_exists(struct sched_entity, cfs_rq) || !bpf_core_field_exists(struct cfs_rq, rq))
		return 0;
	rq = task->se.cfs_rq->rq;
	return rq->clock - rq->clock_task;
}

/* Returns the time up to now in which the current thread used no CPU, plus a constant, in nanoseconds. */
static __always_inline u64 idle(struct task_struct *task)
{
	return task->se.exec_start + clock_lag(task) - task->se.sum_exec_runtime;
}

/* Returns the time that the thread was ready and waited for a CPU, in nanoseconds. */
static __always_inline u64 run_delay(struct task_struct *task)
{
	if (!bpf_core_field_exists(struct sched_info, run_delay))
		return 0;
	return task->sched_info.run_delay;
}

static __always_inline u32 at_most_u32(u64 n)
{
	return n > 0xffffffff ? 0xffffffff : n;
}

/* Measures the gap that ends at the start of `call`. */
static __always_inline void start_gap(struct call *call, struct task_struct *task)
{
	s64 slept, length = call->t - call->t_end;
	u64 ready;

	call->gap.known = 0;
	if (!call->t_end || length < 0)
		return;
	slept = idle(task) - call->idle_end;
	if (slept < 0)
		slept = 0;
	if (slept > length)
		slept = length;
	ready = run_delay(task) - call->run_delay_end;
	if (ready > (u64)slept)
		ready = slept;
	call->gap.cpu = length - slept;
	call->gap.ready = at_most_u32(ready);
	call->gap.wake = call->t_wake ? at_most_u32(call->t - call->t_wake) : 0;
	call->gap.waker = call->t_wake ? call->waker : 0;
	call->gap.served = at_most_u32(call->served);
	call->gap.known = 1;
}

/* Ends the recorded operation `call` and starts a gap. */
static __always_inline void end_gap(struct call *call, struct task_struct *task)
{
	call->t_end = bpf_ktime_get_ns();
	call->idle_end = idle(task);
	call->run_delay_end = run_delay(task);
	call->t_wake = 0;
	call->served = 0;
}

/*
 * This is a flag instead of a count of nested interrupts: the kernel may skip a program that is interrupted
 * while it runs, and a count would then stay wrong.
 */
static __always_inline int set_interrupted(u32 by, u32 value)
{
	u32 *flag = bpf_map_lookup_elem(&interrupted, &by);

	if (flag)
		*flag = value;
	return 0;
}

static __always_inline bool is_interrupted(u32 by)
{
	u32 *flag = bpf_map_lookup_elem(&interrupted, &by);

	return flag && *flag;
}

/*
 * Returns who wakes `task`: the current thread, or a timer, device or packet that interrupts it. A packet is from another process, also one
 * that this machine's loopback device delivers.
 */
static __always_inline u32 waker_of(struct task_struct *task, struct task_struct *current)
{
	struct call *waker;

	if (is_interrupted(BY_DEVICE))
		return WAKER_TIMER;
	if (is_interrupted(BY_NETWORK))
		return WAKER_OTHER;
	waker = bpf_task_storage_get(&calls, current, 0, 0);
	if (waker && waker->t_end)
		return current->pid;
	return current->tgid == task->tgid ? WAKER_SIBLING : WAKER_OTHER;
}

/* Records that `task` is woken. */
static __always_inline void woken(struct task_struct *task)
{
	struct task_struct *current = bpf_get_current_task_btf();
	struct call *call;
	u64 since;

	/* Most wakeups are of kernel threads. */
	if (task->flags & PF_KTHREAD || task == current || (config.by_pid && !followed(task->tgid)))
		return;
	call = bpf_task_storage_get(&calls, task, 0, 0);
	if (!call || !call->t_end)
		return;
	since = call->t_wake ? call->t_wake : call->t_end;
	call->t_wake = bpf_ktime_get_ns();
	call->waker = waker_of(task, current);
	if (call->waker == WAKER_OTHER || call->waker == WAKER_SIBLING)
		call->served += call->t_wake - since;
}
