/// Columns of text under a heading. Widths count characters.
struct Table {
  var heading: [String]
  var rows: [[String]] = []
  /// Columns of numbers, which line up at their right.
  var numbers: Set<Int> = []

  var lines: [String] {
    let all = [heading] + rows
    let widths = heading.indices.map { column in all.map { $0[column].count }.max() ?? 0 }
    return all.map { row in
      let cells = row.enumerated().map { column, text -> String in
        let gap = String(repeating: " ", count: widths[column] - text.count)
        return numbers.contains(column) ? gap + text : text + gap
      }
      var line = cells.joined(separator: "  ")
      while line.last == " " { line.removeLast() }
      return line
    }
  }

  func print() { for line in lines { Console.print(line) } }
}
