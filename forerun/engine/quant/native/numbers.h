// Sizes and numbers that all parts of the product share.
//
// Compiled with -ffp-contract=off: every operation rounds in one way only, so that all paths give the same bits.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

constexpr int BLOCK_ROWS = 16;     // rows that are multiplied together
constexpr int DEPTH = 64;          // numbers along the depth of one step
constexpr int TILE_COLUMNS = 16;   // a tile holds DEPTH weights of each: [DEPTH / 4][TILE_COLUMNS][4] bytes
constexpr int TILE_BYTES = DEPTH * TILE_COLUMNS;
constexpr int BLOCK_COLUMNS = 32;  // two tiles side by side, one step of a block of columns
constexpr int STEP_BYTES = 2 * TILE_BYTES;
constexpr int QUAD = 4;            // numbers along the depth that one instruction adds up

// Weights come from memory once, in order, and are asked for far enough ahead that it answers in time. `from`: what is
// asked for at step 0, LINES lines a step; none where they are near already.
constexpr int LINE = 64;
constexpr int AHEAD = 8192;

template <int LINES>
struct Ahead {
    const void* from;

    // Of a step's lines the part `part` of `parts`.
    void ask(int step, int part = 0, int parts = 1) const {
        if constexpr (LINES > 0) {
            const char* line = static_cast<const char*>(from) + static_cast<long>(step) * LINES * LINE;
            for (int i = part * LINES / parts; i < (part + 1) * LINES / parts; ++i)
                __builtin_prefetch(line + i * LINE, 0, 3);
        }
    }
};

inline float widened(uint16_t bf16) {
    const uint32_t bits = static_cast<uint32_t>(bf16) << 16;
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

// To the nearest bf16, ties to even; NaN stays NaN.
inline uint16_t narrowed(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    const uint32_t rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;
    return static_cast<uint16_t>(value == value ? rounded : 0x7FC0);
}
