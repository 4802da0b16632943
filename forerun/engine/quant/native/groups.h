// Weights in 4 bits, which become int8 before they are multiplied.
//
// A group is GROUP weights of a column, one after the other along the depth. It has a step and a base, numbers of 16
// bits with 8 of them after the point, and a weight is (level * step + base) rounded down: one of 16 int8 in a row.
#pragma once

#include "numbers.h"

constexpr int GROUP = 32;
constexpr int GROUP_LINES = 5;  // of a group of TILE_COLUMNS columns: {step, base} of each, then [GROUP / 8] of levels
constexpr int PACKED_STEP_LINES = DEPTH / GROUP * BLOCK_COLUMNS / TILE_COLUMNS * GROUP_LINES;
constexpr int PACKED_STEP_BYTES = PACKED_STEP_LINES * LINE;

// As many numbers as a line has; the compiler cuts them into this machine's vectors.
typedef uint16_t Halves __attribute__((vector_size(LINE)));
typedef uint32_t Words __attribute__((vector_size(LINE)));

inline Words line_at(const uint8_t* from) {
    Words line;
    std::memcpy(&line, from, LINE);
    return line;
}

// A line of levels holds, in 16 bits, four levels of a column: two of a quad's numbers, then two of the next quad's.
inline void unpack_group(const uint8_t* packed, int8_t* weights) {
    const Words both = line_at(packed);
    const Words low = both & 0xFFFF, high = both >> 16;
    const Halves step = (Halves)(low | low << 16), base = (Halves)(high | high << 16);
    for (int line = 1; line < GROUP_LINES; ++line, weights += 2 * LINE) {
        const Halves levels = (Halves)line_at(packed + line * LINE);
        const Halves first = (levels & 15) * step + base, second = (levels >> 4 & 15) * step + base;
        const Halves third = (levels >> 8 & 15) * step + base, fourth = (levels >> 12) * step + base;
        const Halves quad = first >> 8 | (second & 0xFF00), next_quad = third >> 8 | (fourth & 0xFF00);
        std::memcpy(weights, &quad, LINE);
        std::memcpy(weights + LINE, &next_quad, LINE);
    }
}

// A block of columns: `steps` times PACKED_STEP_BYTES become as many times STEP_BYTES.
inline void unpack_block(const uint8_t* packed, int steps, int8_t* weights) {
    constexpr int group_bytes = GROUP_LINES * LINE, unpacked_bytes = GROUP * TILE_COLUMNS;
    const Ahead<PACKED_STEP_LINES> ahead{packed + AHEAD};
    for (int step = 0; step < steps; ++step) {
        ahead.ask(step);
        for (int group = 0; group < PACKED_STEP_LINES / GROUP_LINES; ++group) {
            unpack_group(packed, weights);
            packed += group_bytes;
            weights += unpacked_bytes;
        }
    }
}
