// The product of a block without a matrix unit: four bytes times four bytes at a time, in this machine's vectors.
//
// Instructions that add to their sum are written out where there are such: GCC 12 keeps the sums of their intrinsics in
// memory as soon as there are sixteen, and takes twice the time. num_sums: as many as keep the machine busy.
#pragma once

#include "rows.h"

#if defined(__AVX512VNNI__) && defined(__AVX512BW__)

// Instructions take weights from 0 to 255: 128 is added to each, and 128 times a row's sum subtracted in the end.
struct Dot {
    typedef __m512i Vector;
    static constexpr int max_rows = 6, num_sums = 16, offset = 128;
    static Vector weights(const int8_t* from) {
        return _mm512_xor_si512(_mm512_loadu_si512(from), _mm512_set1_epi8(-128));
    }
    static Vector all(int32_t quad) { return _mm512_set1_epi32(quad); }
    static Vector add(Vector sum, Vector weights, Vector rows) {
        asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(weights), "v"(rows));
        return sum;
    }
    static Vector plus(Vector one, Vector other) { return _mm512_add_epi32(one, other); }
};

#elif defined(__AVXVNNI__)

struct Dot {
    typedef __m256i Vector;
    static constexpr int max_rows = 3, num_sums = 8, offset = 128;
    static Vector weights(const int8_t* from) {
        return _mm256_xor_si256(_mm256_loadu_si256(reinterpret_cast<const Vector*>(from)), _mm256_set1_epi8(-128));
    }
    static Vector all(int32_t quad) { return _mm256_set1_epi32(quad); }
    static Vector add(Vector sum, Vector weights, Vector rows) {
        asm("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sum) : "x"(weights), "x"(rows));
        return sum;
    }
    static Vector plus(Vector one, Vector other) { return _mm256_add_epi32(one, other); }
};

#elif defined(__AVX2__)

// |w| times x with w's sign: two such products of at most 127 * 127 fit into 16 bits.
struct Dot {
    typedef __m256i Vector;
    static constexpr int max_rows = 3, num_sums = 8, offset = 0;
    static Vector weights(const int8_t* from) { return _mm256_loadu_si256(reinterpret_cast<const Vector*>(from)); }
    static Vector all(int32_t quad) { return _mm256_set1_epi32(quad); }
    static Vector add(Vector sum, Vector weights, Vector rows) {
        const Vector pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(weights), _mm256_sign_epi8(rows, weights));
        return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
    }
    static Vector plus(Vector one, Vector other) { return _mm256_add_epi32(one, other); }
};

#else

struct Dot {
    struct Vector {
        int32_t lanes[4];
    };
    static constexpr int max_rows = 2, num_sums = 8, offset = 0;
    static Vector weights(const int8_t* from) {
        Vector result;
        std::memcpy(&result, from, sizeof result);
        return result;
    }
    static Vector all(int32_t quad) { return {{quad, quad, quad, quad}}; }
    static Vector add(Vector sum, const Vector& weights, const Vector& rows) {
        int8_t w[sizeof(Vector)], x[sizeof(Vector)];
        std::memcpy(w, &weights, sizeof w);
        std::memcpy(x, &rows, sizeof x);
        for (int i = 0; i < static_cast<int>(sizeof(Vector)); ++i) sum.lanes[i / QUAD] += w[i] * x[i];
        return sum;
    }
    static Vector plus(Vector one, const Vector& other) {
        for (int i = 0; i < 4; ++i) one.lanes[i] += other.lanes[i];
        return one;
    }
};

#endif

constexpr int DOT_COLUMNS = sizeof(Dot::Vector) / QUAD;
constexpr int DOT_VECTORS = 2;  // of columns, for every row that is read

inline int32_t quad_at(const int8_t* codes) {
    int32_t quad;
    std::memcpy(&quad, codes, sizeof quad);
    return quad;
}

// Rows [row, row + R) times columns [column, column + DOT_VECTORS * DOT_COLUMNS). An instruction waits for the last one
// that added to its sum: few rows have several sums, which take turns.
template <int R, int LINES>
inline void dot_strip(const CodedRows& block, int row, const int8_t* weights, int column, Ahead<LINES> ahead,
                      Sums& sums) {
    constexpr int turns = std::max(1, Dot::num_sums / (2 * R * DOT_VECTORS)), quads = DEPTH / QUAD;
    static_assert(quads % turns == 0);
    Dot::Vector running[turns][2][R][DOT_VECTORS];
    for (int turn = 0; turn < turns; ++turn)
        for (int half : {HIGH, LOW})
            for (int r = 0; r < R; ++r)
                for (int v = 0; v < DOT_VECTORS; ++v)
                    running[turn][half][r][v] = Dot::all(turn ? 0 : -Dot::offset * block.facts[row + r].sums[half]);
    for (int step = 0; step < block.steps; ++step) {
        const int8_t* of_step = weights + static_cast<long>(step) * STEP_BYTES;
        const int8_t* codes = block.at(step, HIGH, row);
        for (int first = 0; first < quads; first += turns)
#pragma GCC unroll 4
            for (int turn = 0; turn < turns; ++turn) {
                const int quad = first + turn;
                if (row == 0 && column == 0) ahead.ask(step, quad, quads);
                Dot::Vector w[DOT_VECTORS];
                for (int v = 0; v < DOT_VECTORS; ++v) {
                    const int at = column + v * DOT_COLUMNS;
                    w[v] = Dot::weights(of_step + at / TILE_COLUMNS * TILE_BYTES + quad * QUAD * TILE_COLUMNS +
                                        at % TILE_COLUMNS * QUAD);
                }
                for (int half : {HIGH, LOW})
                    for (int r = 0; r < R; ++r) {
                        const int8_t* code = codes + half * block.half_bytes() + r * DEPTH + quad * QUAD;
                        const auto x = Dot::all(quad_at(code));
                        for (int v = 0; v < DOT_VECTORS; ++v)
                            running[turn][half][r][v] = Dot::add(running[turn][half][r][v], w[v], x);
                    }
            }
    }
    for (int half : {HIGH, LOW})
        for (int r = 0; r < R; ++r)
            for (int v = 0; v < DOT_VECTORS; ++v) {
                Dot::Vector sum = running[0][half][r][v];
                for (int turn = 1; turn < turns; ++turn) sum = Dot::plus(sum, running[turn][half][r][v]);
                std::memcpy(&sums[half][row + r][column + v * DOT_COLUMNS], &sum, sizeof sum);
            }
}

// Strips of as good as equal height, the fewest that do: R is the highest, and then what is tried.
template <int R, int LINES>
inline void dot_strips(int height, const CodedRows& block, int row, const int8_t* weights, Ahead<LINES> ahead,
                       Sums& sums) {
    if constexpr (R > 1)
        if (height < R) return dot_strips<R - 1>(height, block, row, weights, ahead, sums);
    for (int column = 0; column < BLOCK_COLUMNS; column += DOT_VECTORS * DOT_COLUMNS)
        dot_strip<R>(block, row, weights, column, ahead, sums);
}

template <int LINES>
inline void multiply_dots(const CodedRows& block, const int8_t* weights, Ahead<LINES> ahead, Sums& sums) {
    for (int row = 0, height; row < block.num_rows; row += height) {
        const int left = block.num_rows - row, num_strips = (left + Dot::max_rows - 1) / Dot::max_rows;
        height = (left + num_strips - 1) / num_strips;
        dot_strips<Dot::max_rows>(height, block, row, weights, ahead, sums);
    }
}
