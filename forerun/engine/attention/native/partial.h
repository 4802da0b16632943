// Partial results of attention: over some of a row's keys, to be folded from left to right.
#pragma once

#include <algorithm>

#include "vectors.h"

constexpr int TILE_ROWS = 16;

// Of TILE_ROWS rows: values weighted by 2^(score - greatest) `[TILE_ROWS, width]`, greatest scores, sums of weights.
struct Partial {
    float* values;
    int width;

    static constexpr long floats(int width) { return TILE_ROWS * (width + 2L); }
    float* greatest() const { return values + TILE_ROWS * width; }
    float* sums() const { return greatest() + TILE_ROWS; }
    Partial tile(int index) const { return {values + index * floats(width), width}; }

    // What folding leaves as it was.
    void clear() const {
        std::fill(values, values + floats(width), 0.0f);
        std::fill(greatest(), greatest() + TILE_ROWS, -FLT_MAX);
    }
};

// `whole` takes in the keys after its own.
inline void fold(Partial whole, Partial next, int rows) {
    alignas(64) float kept[TILE_ROWS], added[TILE_ROWS];
    for (int row = 0; row < TILE_ROWS; row += LANES) {
        const Floats before = load(whole.greatest() + row), here = load(next.greatest() + row);
        const Floats greatest = maximum(before, here);
        const Floats keep = exp2(before - greatest), add = exp2(here - greatest);
        store(whole.greatest() + row, greatest);
        store(whole.sums() + row, fma(load(next.sums() + row), add, load(whole.sums() + row) * keep));
        store(kept + row, keep);
        store(added + row, add);
    }
    for (int row = 0; row < rows; ++row)
        for (int column = row * whole.width; column < (row + 1) * whole.width; column += LANES) {
            const Floats before = load(whole.values + column) * all(kept[row]);
            store(whole.values + column, fma(load(next.values + column), all(added[row]), before));
        }
}
