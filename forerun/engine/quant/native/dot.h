// Four bytes times four bytes, in this machine's vectors: what strip.h makes products of integers from.
//
// Instructions that add to their sum are written out where there are such: GCC 12 keeps the sums of their intrinsics in
// memory as soon as there are sixteen, and takes twice the time. num_sums: as many as keep the machine busy.
#pragma once

#include "rows.h"

#if defined(__AVX512VNNI__) && defined(__AVX512BW__)

// Instructions take weights from 0 to 255: 128 is added to each, and 128 times a row's sum subtracted beforehand.
struct Quads {
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

struct Quads {
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
struct Quads {
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

struct Quads {
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

struct IntegerDot : Quads {
    typedef ::Sums Sums;
    typedef Vector Weights;
    static constexpr int columns = sizeof(Vector) / QUAD;
    static constexpr int vectors = 2;  // of columns, for every row that is read
    static constexpr int chains(int rows) { return std::max(1, num_sums / (2 * rows * vectors)); }
    static Vector start(int32_t sum_of_row) { return all(-offset * sum_of_row); }
};
