/// "did you mean": the candidate that takes the fewest edits, if that is few for its length.
package func nearest(to word: String, among candidates: some Sequence<String>) -> String? {
  let scored = candidates.map { (name: $0, distance: editDistance(word, $0)) }
  guard let best = scored.min(by: { ($0.distance, $0.name) < ($1.distance, $1.name) }) else { return nil }
  let limit = max(1, (max(word.count, best.name.count) + 1) / 3)
  if best.distance <= limit { return best.name }
  return scored.filter { word.count >= 2 && $0.name.hasPrefix(word) }.map(\.name).min()
}

/// `; did you mean X?`, or nothing.
package func suggestion(for word: String, among candidates: some Sequence<String>, prefix: String = "")
  -> String
{
  nearest(to: word, among: candidates).map { "; did you mean \(prefix)\($0)?" } ?? ""
}

/// Insertions, deletions, substitutions and swaps of neighbours that lead from `a` to `b`.
package func editDistance(_ a: String, _ b: String) -> Int {
  let a = Array(a.utf8), b = Array(b.utf8)
  guard !a.isEmpty, !b.isEmpty else { return max(a.count, b.count) }
  var older = [Int](repeating: 0, count: b.count + 1)
  var row = Array(0...b.count)
  for i in 1...a.count {
    var next = [i] + [Int](repeating: 0, count: b.count)
    for j in 1...b.count {
      next[j] = min(row[j] + 1, next[j - 1] + 1, row[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1))
      if i > 1, j > 1, a[i - 1] == b[j - 2], a[i - 2] == b[j - 1] { next[j] = min(next[j], older[j - 2] + 1) }
    }
    older = row
    row = next
  }
  return row[b.count]
}
