// Products of weights in bf16: what linear.h has to know of them. Sums are float32.
//
// A row's sums are added up in one order, along its depth: what stands beside it and the number of threads change no bit.
#pragma once

#include "strip.h"

constexpr int PAIR = 2;  // numbers of QUAD bytes

typedef float FloatSums[1][BLOCK_ROWS][BLOCK_COLUMNS];

#if defined(__AVX512BF16__)

struct Pairs {
    typedef __m512 Vector;
    typedef __m512i Weights;
    static constexpr int max_rows = 12;
    static Weights weights(const int8_t* from) { return _mm512_loadu_si512(from); }
    static Weights all(int32_t pair) { return _mm512_set1_epi32(pair); }
    static Vector add(Vector sum, Weights weights, Weights rows) {
        asm("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(weights), "v"(rows));
        return sum;
    }
    static Vector start(int32_t) { return _mm512_setzero_ps(); }
};

#else

struct Pairs {
    struct Vector {
        float lanes[4];
    };
    struct Weights {
        uint16_t numbers[4 * PAIR];
    };
    static constexpr int max_rows = 2;
    static Weights weights(const int8_t* from) {
        Weights result;
        std::memcpy(&result, from, sizeof result);
        return result;
    }
    static Weights all(int32_t pair) {
        Weights result;
        for (int i = 0; i < 4; ++i) std::memcpy(result.numbers + i * PAIR, &pair, sizeof pair);
        return result;
    }
    static Vector add(Vector sum, const Weights& weights, const Weights& rows) {
        for (int i = 0; i < 4 * PAIR; ++i)
            sum.lanes[i / PAIR] += widened(weights.numbers[i]) * widened(rows.numbers[i]);
        return sum;
    }
    static Vector start(int32_t) { return {}; }
};

#endif

struct Bf16Dot : Pairs {
    typedef FloatSums Sums;
    static constexpr int columns = sizeof(Vector) / sizeof(float);
    static constexpr int vectors = 2;
    static constexpr int chains(int) { return 1; }  // two would add up in another order
    static Vector plus(Vector one, const Vector&) { return one; }
};

// Rows that are multiplied together: for every step a line of each.
struct CopiedRows {
    static constexpr int halves = 1;
    struct Facts {};
    int8_t* lines;
    Facts* facts;
    int num_rows, steps;

    int32_t sum(int, int) const { return 0; }
    int half_bytes() const { return 0; }
    int8_t* at(int step, int, int row) const { return lines + (static_cast<long>(step) * num_rows + row) * LINE; }
};

struct Bf16 {
    typedef CopiedRows Rows;
    typedef CopiedRows::Facts Facts;
    typedef FloatSums Sums;
    static constexpr int depth = LINE / static_cast<int>(sizeof(uint16_t));  // numbers of a step
    static constexpr bool has_groups = false;  // whether weights may be those of groups.h

    // A matrix unit is not used: where there is one, inductor's own products are flat.
    struct Unit {
        explicit Unit(int) {}
        template <int LINES>
        void multiply(const Rows& block, const int8_t* weights, Ahead<LINES> ahead, Sums& sums) const {
            multiply_strips<Bf16Dot>(block, weights, ahead, sums);
        }
    };

    static void write_row(const Rows& block, int row, const uint16_t* numbers, long count) {
        for (int step = 0; step < block.steps; ++step) {
            const long first = static_cast<long>(step) * depth, some = std::min<long>(depth, count - first);
            int8_t* line = block.at(step, 0, row);
            std::memcpy(line, numbers + first, some * sizeof *numbers);
            if (some < depth) std::memset(line + some * sizeof *numbers, 0, (depth - some) * sizeof *numbers);
        }
    }
    static void clear_row(const Rows& block, int row) {
        for (int step = 0; step < block.steps; ++step) std::memset(block.at(step, 0, row), 0, LINE);
    }

    static void finish(const Sums& sums, const Facts&, int row, const float* scales, const float* biases,
                       long num_columns, uint16_t* output) {
        for (long i = 0; i < num_columns; ++i) output[i] = narrowed(sums[0][row][i] * scales[i] + biases[i]);
    }
};
