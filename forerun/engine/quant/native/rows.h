// Activations in 15 bits and a sign: x = scale (128 high + low), high and low of 8 bits.
//
// The error is at most 2^-15 of a row's largest number, less than what bf16 itself rounds off that number.
#pragma once

#include <cmath>
#include <limits>

#include "numbers.h"

constexpr int LEVELS = 127 * 128;
constexpr int HIGH = 0, LOW = 1;  // halves of a row's codes

// Sums over the depth of both halves, which no order of adding changes. A sum stays below 2^31: at most 127 * 127 for
// each of the 131,072 numbers that a row may have (see native_linear.MAX_DEPTH).
typedef int32_t Sums[2][BLOCK_ROWS][BLOCK_COLUMNS];

struct RowFacts {
    float scale;          // NaN where a number of the row is not finite: then so is all of its product
    int32_t sums[2] = {};  // of the codes of each half
};

// Rows that are multiplied together: for every DEPTH numbers along the depth the high codes of all rows, then the low
// ones.
struct CodedRows {
    static constexpr int halves = 2;
    int8_t* codes;
    RowFacts* facts;
    int num_rows, steps;

    int32_t sum(int half, int row) const { return facts[row].sums[half]; }
    int half_bytes() const { return num_rows * DEPTH; }
    int8_t* at(int step, int half, int row) const {
        return codes + (static_cast<long>(step) * 2 + half) * half_bytes() + row * DEPTH;
    }
};

// A row's largest size, as the bits of a bf16: all others order like numbers, what is not finite comes last.
inline uint16_t largest_of(const uint16_t* numbers, long depth) {
    uint16_t largest = 0;
    for (long i = 0; i < depth; ++i) largest = std::max<uint16_t>(largest, numbers[i] & 0x7FFF);
    return largest;
}

inline void encode(const float* scaled, int8_t* high, int8_t* low, int32_t (&sums)[2]) {
    constexpr float magic = 12582912.0f;  // 1.5 * 2^23: a sum with it has the nearest integer in its low bits
    int32_t high_sum = 0, low_sum = 0;
    for (int i = 0; i < DEPTH; ++i) {
        const float shifted = scaled[i] + magic;
        int32_t level;
        std::memcpy(&level, &shifted, sizeof level);
        level -= 0x4B400000;
        const int32_t upper = (level + 64) >> 7, lower = level - upper * 128;
        high[i] = static_cast<int8_t>(upper);
        low[i] = static_cast<int8_t>(lower);
        high_sum += upper;
        low_sum += lower;
    }
    sums[HIGH] += high_sum;
    sums[LOW] += low_sum;
}

// Writes row `row` of the block, zeros beyond the depth included.
inline void encode_row(const CodedRows& block, int row, const uint16_t* numbers, long depth) {
    constexpr uint16_t not_finite = 0x7F80, too_small = 0x0D80;  // below 2^-100 a row is as good as zeros
    const uint16_t largest = largest_of(numbers, depth);
    const bool is_coded = largest >= too_small && largest < not_finite;
    const float factor = is_coded ? LEVELS / widened(largest) : 0.0f;
    RowFacts facts{is_coded ? widened(largest) / LEVELS : 0.0f};
    if (largest >= not_finite) facts.scale = std::numeric_limits<float>::quiet_NaN();
    for (int step = 0; step < block.steps; ++step) {
        float scaled[DEPTH] = {};
        const long first = static_cast<long>(step) * DEPTH;
        const int count = static_cast<int>(std::min<long>(DEPTH, depth - first));
        if (is_coded)
            for (int i = 0; i < count; ++i) scaled[i] = widened(numbers[first + i]) * factor;
        encode(scaled, block.at(step, HIGH, row), block.at(step, LOW, row), facts.sums);
    }
    block.facts[row] = facts;
}

// A row beyond the last, which is multiplied with the others of its block and read by nobody.
inline void clear_row(const CodedRows& block, int row) {
    for (int step = 0; step < block.steps; ++step)
        for (int half : {HIGH, LOW}) std::memset(block.at(step, half, row), 0, DEPTH);
    block.facts[row] = RowFacts{0.0f};
}
