// The product of a block in the matrix unit (AMX).
#pragma once

#include "rows.h"

#if defined(__AMX_INT8__) && defined(__linux__)
#define FORERUN_TILES 1

#include <sys/syscall.h>
#include <unistd.h>

// Whether this process may use the matrix unit; Linux wants to be asked once.
inline bool ask_for_tiles() {
    constexpr int request_permission = 0x1023, tile_data = 18;
    return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
}

static const bool has_tiles = ask_for_tiles();

// GCC's tile instructions do not say that they read memory: what they are to read is written before this.
inline void written(const void* memory) { asm volatile("" : : "r"(memory) : "memory"); }

// All eight tiles have rows of 64 bytes: 0 … 3 are sums, 4 and 5 weights, 6 and 7 codes.
struct TileSetting {
    explicit TileSetting(int rows) {
        std::fill(num_rows, num_rows + 8, rows);
        num_rows[4] = num_rows[5] = DEPTH / QUAD;
    }
    uint8_t palette = 1, start_row = 0, reserved[14] = {};
    uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    uint8_t num_rows[16] = {};
};

template <int LINES>
inline void multiply_tiles(const CodedRows& block, const int8_t* weights, Ahead<LINES> ahead, Sums& sums) {
    const int8_t* codes = block.codes;
    const long half = block.half_bytes();
    written(codes);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int step = 0; step < block.steps; ++step, codes += 2 * half, weights += STEP_BYTES) {
        ahead.ask(step);
        _tile_loadd(6, codes, DEPTH);
        _tile_loadd(4, weights, 64);
        _tile_dpbssd(0, 6, 4);
        _tile_loadd(5, weights + TILE_BYTES, 64);
        _tile_dpbssd(1, 6, 5);
        _tile_loadd(7, codes + half, DEPTH);
        _tile_dpbssd(2, 7, 4);
        _tile_dpbssd(3, 7, 5);
    }
    _tile_stored(0, sums[HIGH][0], sizeof sums[HIGH][0]);
    _tile_stored(1, sums[HIGH][0] + TILE_COLUMNS, sizeof sums[HIGH][0]);
    _tile_stored(2, sums[LOW][0], sizeof sums[LOW][0]);
    _tile_stored(3, sums[LOW][0] + TILE_COLUMNS, sizeof sums[LOW][0]);
    written(sums);
}

#endif
