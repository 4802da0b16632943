// A block of rows times a block of columns without a matrix unit: sums stay in registers while weights pass by.
//
// Dot: what one instruction of this machine does; see dot.h and bf16.h. max_rows: whose sums fit into the registers
// beside the rest. chains(R): sums of each kind that R rows have, which take turns, since an instruction waits for the
// last one that added to its sum.
#pragma once

#include "numbers.h"

// Four bytes of a row: numbers that one instruction multiplies by as many weights of every column.
inline int32_t quad_at(const int8_t* row) {
    int32_t quad;
    std::memcpy(&quad, row, sizeof quad);
    return quad;
}

// Rows [row, row + R) times columns [column, column + Dot::vectors * Dot::columns).
template <class Dot, int R, class Rows, int LINES>
inline void multiply_strip(const Rows& block, int row, const int8_t* weights, int column, Ahead<LINES> ahead,
                           typename Dot::Sums& sums) {
    typedef typename Dot::Vector Vector;
    constexpr int chains = Dot::chains(R), quads = LINE / QUAD, halves = Rows::halves;
    static_assert(quads % chains == 0);
    Vector running[chains][halves][R][Dot::vectors];
    for (int chain = 0; chain < chains; ++chain)
        for (int half = 0; half < halves; ++half)
            for (int r = 0; r < R; ++r)
                for (int v = 0; v < Dot::vectors; ++v)
                    running[chain][half][r][v] = Dot::start(chain ? 0 : block.sum(half, row + r));
    for (int step = 0; step < block.steps; ++step) {
        const int8_t* of_step = weights + static_cast<long>(step) * STEP_BYTES;
        const int8_t* rows = block.at(step, 0, row);
        for (int first = 0; first < quads; first += chains)
#pragma GCC unroll 4
            for (int chain = 0; chain < chains; ++chain) {
                const int quad = first + chain;
                if (row == 0 && column == 0) ahead.ask(step, quad, quads);
                typename Dot::Weights w[Dot::vectors];
                for (int v = 0; v < Dot::vectors; ++v) {
                    const int at = column + v * Dot::columns;
                    w[v] = Dot::weights(of_step + at / TILE_COLUMNS * TILE_BYTES + quad * QUAD * TILE_COLUMNS +
                                        at % TILE_COLUMNS * QUAD);
                }
                for (int half = 0; half < halves; ++half)
                    for (int r = 0; r < R; ++r) {
                        const auto x = Dot::all(quad_at(rows + half * block.half_bytes() + r * LINE + quad * QUAD));
                        for (int v = 0; v < Dot::vectors; ++v)
                            running[chain][half][r][v] = Dot::add(running[chain][half][r][v], w[v], x);
                    }
            }
    }
    for (int half = 0; half < halves; ++half)
        for (int r = 0; r < R; ++r)
            for (int v = 0; v < Dot::vectors; ++v) {
                Vector sum = running[0][half][r][v];
                for (int chain = 1; chain < chains; ++chain) sum = Dot::plus(sum, running[chain][half][r][v]);
                std::memcpy(&sums[half][row + r][column + v * Dot::columns], &sum, sizeof sum);
            }
}

// R is the greatest height, and then what is tried.
template <class Dot, int R, class Rows, int LINES>
inline void multiply_rows(int height, const Rows& block, int row, const int8_t* weights, Ahead<LINES> ahead,
                          typename Dot::Sums& sums) {
    if constexpr (R > 1)
        if (height < R) return multiply_rows<Dot, R - 1>(height, block, row, weights, ahead, sums);
    for (int column = 0; column < BLOCK_COLUMNS; column += Dot::vectors * Dot::columns)
        multiply_strip<Dot, R>(block, row, weights, column, ahead, sums);
}

// In the fewest strips that do, all of about the same height.
template <class Dot, class Rows, int LINES>
inline void multiply_strips(const Rows& block, const int8_t* weights, Ahead<LINES> ahead, typename Dot::Sums& sums) {
    for (int row = 0, height; row < block.num_rows; row += height) {
        const int left = block.num_rows - row, num_strips = (left + Dot::max_rows - 1) / Dot::max_rows;
        height = (left + num_strips - 1) / num_strips;
        multiply_rows<Dot, Dot::max_rows>(height, block, row, weights, ahead, sums);
    }
}
