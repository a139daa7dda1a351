import CLinux
import Glibc
import StorageErrors

/// Tells what others do to a folder, through inotify(7): one watch per watched folder.
///
/// Events of 50 ms are gathered into one call of the handler. A watch sticks to the folder, not to its path:
/// a folder that was renamed or removed is dropped, with a hint for its parent, and must be watched again
/// where it is now.
final class InotifyFeed: ChangeFeed {
  private let container: DirectoryContainer
  private let handler: @Sendable ([ChangeHint]) -> Void
  private let events: Descriptor
  private let wakeUp: Descriptor
  private let state = Guarded(State())

  private struct State {
    var watched: [Int32: Watch] = [:]
    var byPath: [ContainerPath: Int32] = [:]
    var thread: pthread_t?
    var isStopped = false

    mutating func drop(_ id: Int32) -> Watch? {
      guard let watch = watched.removeValue(forKey: id) else { return nil }
      if byPath[watch.path] == id { byPath[watch.path] = nil }
      return watch
    }
  }

  private struct Watch {
    var path: ContainerPath
    var mark: RootMark
  }

  /// nil when this process may have no more inotify instances.
  init?(_ container: DirectoryContainer, _ handler: @escaping @Sendable ([ChangeHint]) -> Void) {
    self.container = container
    self.handler = handler
    guard let events = try? Descriptor(inotify_init1(Int32(IN_CLOEXEC) | Int32(IN_NONBLOCK))),
      let wakeUp = try? Descriptor(eventfd(0, Int32(EFD_CLOEXEC) | Int32(EFD_NONBLOCK)))
    else { return nil }
    self.events = events
    self.wakeUp = wakeUp
    let thread = startThread("docsfs-feed") { [self] in run() }
    guard let thread else { return nil }
    state.withLock { $0.thread = thread }
  }

  func watch(_ folder: ContainerPath) -> Bool {
    guard let root = try? container.openRoot(), let open = try? root.folder(folder, "watch") else {
      return false
    }
    var status = stat()
    guard fstat(open.fd, &status) == 0 else { return false }
    let mark = RootMark(device: UInt64(status.st_dev), inode: UInt64(status.st_ino))
    // Through the descriptor: it leads to the folder that was opened, and over no symlink.
    let link = open.link
    return state.withLock { state in
      if state.isStopped { return false }
      let id = inotify_add_watch(events.fd, link, mask)
      guard id >= 0 else { return false }
      if let old = state.byPath[folder], old != id {
        _ = state.drop(old)
        inotify_rm_watch(events.fd, old)
      }
      _ = state.drop(id)
      state.watched[id] = Watch(path: folder, mark: mark)
      state.byPath[folder] = id
      return true
    }
  }

  func unwatch(_ folder: ContainerPath) {
    state.withLock { state in
      guard let id = state.byPath[folder] else { return }
      _ = state.drop(id)
      inotify_rm_watch(events.fd, id)
    }
  }

  func stop() {
    let thread = state.withLock { state in
      state.isStopped = true
      defer { state.thread = nil }
      return state.thread
    }
    guard let thread else { return }
    var one: UInt64 = 1
    write(wakeUp.fd, &one, 8)
    if pthread_equal(thread, pthread_self()) == 0 {
      pthread_join(thread, nil)
    } else {
      pthread_detach(thread)
    }
  }

  // MARK: - The feed's thread

  private func run() {
    var hints = HintBatch()
    var deadline: UInt64?
    while true {
      let now = Clock.now()
      if let due = deadline, now >= due {
        deadline = nil
        let list = hints.take()
        if !list.isEmpty { handler(list) }
        continue
      }
      let milliseconds = deadline.map { Int32(($0 - now) / 1_000_000 + 1) } ?? -1
      var polled = [
        pollfd(fd: events.fd, events: Int16(POLLIN), revents: 0),
        pollfd(fd: wakeUp.fd, events: Int16(POLLIN), revents: 0),
      ]
      poll(&polled, 2, milliseconds)
      if state.withLock({ $0.isStopped }) { return }
      if polled[0].revents != 0, gather(&hints), deadline == nil { deadline = Clock.now() + gathering }
    }
  }

  /// Reads what there is; whether there is anything to tell.
  private func gather(_ hints: inout HintBatch) -> Bool {
    var room = [UInt8](repeating: 0, count: 64 << 10)
    let count = read(events.fd, &room, room.count)
    guard count > 0 else { return false }
    room.withUnsafeBytes { bytes in
      var offset = 0
      while offset + MemoryLayout<inotify_event>.size <= count {
        let event = bytes.loadUnaligned(fromByteOffset: offset, as: inotify_event.self)
        let start = offset + MemoryLayout<inotify_event>.size
        let name = bytes[start..<min(count, start + Int(event.len))].prefix { $0 != 0 }
        take(event, try? ItemName(name), &hints)
        offset = start + Int(event.len)
      }
    }
    return !hints.isEmpty
  }

  private func take(_ event: inotify_event, _ name: ItemName?, _ hints: inout HintBatch) {
    if event.mask & UInt32(IN_Q_OVERFLOW) != 0 {
      for path in state.withLock({ Array($0.byPath.keys) }) { hints.add(ChangeHint(folder: path)) }
      return
    }
    guard let watch = state.withLock({ $0.watched[event.wd] }) else { return }
    if event.mask & UInt32(IN_IGNORED) != 0 {
      _ = state.withLock { $0.drop(event.wd) }
    } else if event.mask & selfMask != 0 {
      dropMoved(under: watch.path)
      hints.add(watch.path.isRoot ? ChangeHint(folder: .root) : hint(for: watch.path))
    } else if let name {
      if watch.path.isRoot, name == hiddenName { return }
      if event.mask & UInt32(IN_ISDIR) != 0, event.mask & UInt32(IN_MOVED_FROM | IN_DELETE) != 0 {
        dropMoved(under: watch.path.appending(name))
      }
      hints.add(ChangeHint(folder: watch.path, name: name))
    } else {
      // The folder's own attributes.
      hints.add(hint(for: watch.path))
    }
  }

  private func hint(for path: ContainerPath) -> ChangeHint {
    ChangeHint(folder: path.parent, name: path.last)
  }

  /// Forgets the watches at and below `path` that lead elsewhere by now; one that was set anew since stays.
  private func dropMoved(under path: ContainerPath) {
    let suspects = state.withLock { state in
      state.watched.filter { $0.value.path.names.starts(with: path.names) }
    }
    for (id, watch) in suspects where !isAtItsPath(watch) {
      state.withLock { state in
        guard state.watched[id]?.path == watch.path else { return }
        _ = state.drop(id)
        inotify_rm_watch(events.fd, id)
      }
    }
  }

  private func isAtItsPath(_ watch: Watch) -> Bool {
    guard let root = try? container.openRoot(), let folder = try? root.folder(watch.path, "watch") else {
      return false
    }
    var status = stat()
    guard fstat(folder.fd, &status) == 0 else { return false }
    return watch.mark == RootMark(device: UInt64(status.st_dev), inode: UInt64(status.st_ino))
  }
}

private let gathering: UInt64 = 50_000_000
private let selfMask = UInt32(IN_DELETE_SELF | IN_MOVE_SELF | IN_UNMOUNT)
private let mask = UInt32(
  IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_CLOSE_WRITE | IN_MODIFY | IN_ATTRIB
    | IN_DELETE_SELF
    | IN_MOVE_SELF | IN_ONLYDIR)

/// Hints without doubles; many names of one folder become one hint to list it.
struct HintBatch {
  private var names: [ContainerPath: Set<ItemName>] = [:]
  private var whole: Set<ContainerPath> = []
  static let mostNames = 512

  var isEmpty: Bool { names.isEmpty && whole.isEmpty }

  mutating func add(_ hint: ChangeHint) {
    guard !whole.contains(hint.folder) else { return }
    guard let name = hint.name, names[hint.folder, default: []].count < Self.mostNames else {
      names[hint.folder] = nil
      whole.insert(hint.folder)
      return
    }
    names[hint.folder, default: []].insert(name)
  }

  mutating func take() -> [ChangeHint] {
    let hints =
      whole.map { ChangeHint(folder: $0) }
      + names.flatMap { folder, names in names.map { ChangeHint(folder: folder, name: $0) } }
    self = HintBatch()
    return hints
  }
}
