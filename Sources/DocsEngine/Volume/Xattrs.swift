import Containers
import Glibc
import StorageErrors

/// The attributes that docsfs itself answers: readable by name, in no list.
enum VirtualXattr: String {
  case state, sync, pin, version, progress, error

  init?(_ name: [UInt8]) {
    let prefix = Array("user.docsfs.".utf8)
    guard name.starts(with: prefix) else { return nil }
    self.init(rawValue: String(decoding: name.dropFirst(prefix.count), as: UTF8.self))
  }
}

extension Volume {
  package func xattr(_ node: NodeID, _ name: [UInt8], _ caller: Caller) -> Result<[UInt8], Errno> {
    performNow { state throws(Need) in
      let item = try state.resolve(node).item
      if let virtual = VirtualXattr(name) {
        guard let text = self.value(of: virtual, item, state) else { throw .fail(.ENODATA) }
        return Array(text.utf8)
      }
      guard let value = item.record.xattrs[name] else { throw .fail(.ENODATA) }
      return value
    }
  }

  package func xattrNames(_ node: NodeID) -> Result<[[UInt8]], Errno> {
    performNow { state throws(Need) in
      try state.resolve(node).item.record.xattrs.keys.sorted { $0.lexicographicallyPrecedes($1) }
    }
  }

  package func setXattr(
    _ node: NodeID, _ name: [UInt8], _ value: [UInt8], flags: Int32, _ reply: @escaping Reply<Void>
  ) {
    if let virtual = VirtualXattr(name) { return setVirtual(virtual, node, value, reply) }
    guard !name.starts(with: Array("user.docsfs.".utf8)) else { return reply(.failure(.EPERM)) }
    perform({ Interruption() }, reply) { state throws(Need) in
      try self.requireWritable(state)
      let item = try state.resolve(node).item
      let known = item.record.xattrs[name]
      // XATTR_CREATE and XATTR_REPLACE.
      if flags & 1 != 0, known != nil { throw .fail(.EEXIST) }
      if flags & 2 != 0, known == nil { throw .fail(.ENODATA) }
      let total = item.record.xattrs.reduce(name.count + value.count) { $0 + $1.key.count + $1.value.count }
      guard total <= 256 << 10 else { throw .fail(.ENOSPC) }
      item.record.xattrs[name] = value
      self.changedXattrs(item, &state)
      return .recorded(())
    }
  }

  package func removeXattr(_ node: NodeID, _ name: [UInt8], _ reply: @escaping Reply<Void>) {
    perform({ Interruption() }, reply) { state throws(Need) in
      try self.requireWritable(state, needsRoom: false)
      if VirtualXattr(name) != nil { throw .fail(.EPERM) }
      let item = try state.resolve(node).item
      guard item.record.xattrs.removeValue(forKey: name) != nil else { throw .fail(.ENODATA) }
      self.changedXattrs(item, &state)
      return .recorded(())
    }
  }

  private func changedXattrs(_ item: Item, _ state: inout VolumeState) {
    item.record.changed = .now()
    item.attributesRevision += 1
    if container.traits.holdsXattrs { item.record.flags.insert(.attributesDirty) }
    changedLocally(item, &state)
  }

  private func setVirtual(_ virtual: VirtualXattr, _ node: NodeID, _ value: [UInt8], _ reply: @escaping Reply<Void>) {
    guard virtual == .pin else { return reply(.failure(.EPERM)) }
    let text = String(decoding: value, as: UTF8.self)
    guard text == "0" || text == "1" else { return reply(.failure(.EINVAL)) }
    perform({ Interruption() }, reply) { state throws(Need) in
      let item = try state.resolve(node).item
      self.setPinned(item, text == "1", &state)
      return .recorded(())
    }
  }

  private func value(of virtual: VirtualXattr, _ item: Item, _ state: VolumeState) -> String? {
    switch virtual {
    case .state: contentState(item).rawValue
    case .sync: syncState(item, state).rawValue
    case .pin: state.isPinned(item) ? "1" : "0"
    case .version: item.record.remote.map { $0.version.bytes.map { hex($0) }.joined() }
    case .progress: String(Int(progress(item) * 100))
    case .error: item.record.error
    }
  }
}

func hex(_ byte: UInt8) -> String {
  let text = String(byte, radix: 16)
  return byte < 16 ? "0" + text : text
}
