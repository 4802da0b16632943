// Products of weights in 8 or 4 bits: what linear.h has to know of them.
//
// The sums are integers, exact in any order: neither what stands beside a row nor the number of threads nor the
// instructions of the machine change a bit of its output.
#pragma once

#include "dot.h"
#include "strip.h"
#include "tiles.h"

// Holds the matrix unit, where there is one, for as long as this thread multiplies blocks of so many rows.
class Multiplier {
   public:
#if defined(FORERUN_TILES)
    explicit Multiplier(int rows) {
        const TileSetting setting(rows);
        written(&setting);
        if (has_tiles) _tile_loadconfig(&setting);
    }
    ~Multiplier() {
        if (has_tiles) _tile_release();
    }
#else
    explicit Multiplier(int) {}
#endif
    Multiplier(const Multiplier&) = delete;

    template <int LINES>
    void multiply(const CodedRows& block, const int8_t* weights, Ahead<LINES> ahead, Sums& sums) const {
#if defined(FORERUN_TILES)
        if (has_tiles) return multiply_tiles(block, weights, ahead, sums);
#endif
        multiply_strips<IntegerDot>(block, weights, ahead, sums);
    }
};

struct Integers {
    typedef CodedRows Rows;
    typedef RowFacts Facts;
    typedef ::Sums Sums;
    typedef Multiplier Unit;
    static constexpr int depth = DEPTH;  // numbers of a step
    static constexpr bool has_groups = true;  // whether weights may be those of groups.h

    static void write_row(const Rows& block, int row, const uint16_t* numbers, long count) {
        encode_row(block, row, numbers, count);
    }
    static void clear_row(const Rows& block, int row) { ::clear_row(block, row); }

    // scales, biases: those of the columns.
    static void finish(const Sums& sums, const Facts& facts, int row, const float* scales, const float* biases,
                       long num_columns, uint16_t* output) {
        const int32_t *high = sums[HIGH][row], *low = sums[LOW][row];
        for (long i = 0; i < num_columns; ++i) {
            const float sum = static_cast<float>(high[i]) * 128.0f + static_cast<float>(low[i]);
            output[i] = narrowed(sum * (facts.scale * scales[i]) + biases[i]);
        }
    }
};
