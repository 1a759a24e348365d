// Random numbers from a seed: the same draws for the same seed, in every browser.

/** A function that gives uniform numbers in (0, 1], by Doty-Humphrey's sfc32. */
export function uniforms(seed) {
    let a = 0x9e3779b9, b = seed | 0, c = Math.floor(seed / 2 ** 32) | 0, counter = 1
    const next = () => {
        const found = (((a + b) | 0) + counter) | 0
        counter = (counter + 1) | 0
        a = b ^ (b >>> 9)
        b = (c + (c << 3)) | 0
        c = (c << 21) | (c >>> 11)
        c = (c + found) | 0
        return found >>> 0
    }
    for (let i = 0; i < 15; i++) { next() }
    // Zero is the end of a tail; 53 bits.
    return () => 1 - ((next() >>> 5) * 2 ** 26 + (next() >>> 6)) / 2 ** 53
}
