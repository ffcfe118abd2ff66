/* SPDX-License-Identifier: CDDL-1.0 */
/* What the engine's work costs on the virtual clock. */
#ifndef POOLWRIGHT_COST_H
#define POOLWRIGHT_COST_H

#include <stdint.h>

#include "../engine.h"

void pw_cost_set(const pw_costs_t *costs);
/* Charges the copy of bytes between the application and the engine. */
void pw_cost_copy(uint64_t bytes);

#endif
