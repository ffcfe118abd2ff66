/* SPDX-License-Identifier: CDDL-1.0 */
/* The development package lacks this header. Other headers include it, but use none of its declarations. */
