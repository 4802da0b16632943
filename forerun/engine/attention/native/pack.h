// From rows as the cache holds them to the operands of `multiply`.
#pragma once

#include "multiply.h"

constexpr int MAX_HEAD_DIM = 256;
constexpr int STEP = 32;  // keys and dimensions are filled up with zeros to multiples of this

constexpr int rounded_down(int number) { return number / STEP * STEP; }
constexpr int rounded_up(int number) { return rounded_down(number + STEP - 1); }

inline Words load_elements(const float* row, int element, float) { return load_bits<Words>(row + element); }
inline Words load_elements(const Bf16* row, int element, float) { return as<Words>(load(row + element)); }
inline Words load_elements(const Bf16* row, int element, Pair) { return load_bits<Words>(row + 2 * element); }

// Rows [from, to) become columns [from, to): A B then multiplies by them transposed.
template <typename Element, typename Stored>
inline void pack_keys(const Stored* const* rows, int from, int to, int depth, Rows<Element> panels) {
    for (int key = from; key < to; key += LANES)
        for (int element = 0; element < depth; element += LANES) {
            Words square[LANES];
            for (int i = 0; i < LANES; ++i) square[i] = load_elements(rows[key + i], element, Element{});
            transpose(square);
            Element* to_panel = panels[key / LANES] + element * LANES;
            for (int i = 0; i < LANES; ++i) std::memcpy(to_panel + i * LANES, &square[i], sizeof square[i]);
        }
}

// The values of one key and STEP columns from `column` on: in their order, …
template <typename Stored>
inline void pack_value(const Stored* const* rows, int column, Rows<float> panels, int key) {
    for (int lane = column; lane < column + STEP; lane += LANES)
        store(panels[lane / LANES] + key * LANES, load(rows[key] + lane));
}

// … or of two keys, as pairs: first of the even, then of the odd columns, which takes no shuffling.
inline void pack_value(const Bf16* const* rows, int column, Rows<Pair> panels, int key) {
    const Words first = load_bits<Words>(rows[key] + column), second = load_bits<Words>(rows[key + 1] + column);
    const Words even = (first & 0xFFFF) | second << 16, odd = first >> 16 | (second & 0xFFFF0000);
    std::memcpy(panels[column / LANES] + key / 2 * LANES, &even, sizeof even);
    std::memcpy(panels[column / LANES + 1] + key / 2 * LANES, &odd, sizeof odd);
}

// Rows [from, to) stay rows, an element of two bf16 taking two of them; see `in_order`.
template <typename Element, typename Stored>
inline void pack_values(const Stored* const* rows, int from, int to, int width, Rows<Element> panels) {
    constexpr int taken = std::is_same_v<Element, Pair> ? 2 : 1;
    for (int column = 0; column < width; column += STEP)
        for (int key = from; key < to; key += taken) pack_value(rows, column, panels, key);
}

// STEP columns of a product with packed values, back in their order.
template <typename Element>
inline void in_order(Floats (&columns)[STEP / LANES]) {
    if constexpr (std::is_same_v<Element, Pair>) {
        const Words even = as<Words>(columns[0]), odd = as<Words>(columns[1]);
        columns[0] = as<Floats>(interleave_low(even, odd));
        columns[1] = as<Floats>(interleave_high(even, odd));
    }
}
