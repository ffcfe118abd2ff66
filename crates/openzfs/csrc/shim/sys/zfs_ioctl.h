/* SPDX-License-Identifier: CDDL-1.0 */
/* Left out of the development package; other headers only include it, and need nothing from it here. */
