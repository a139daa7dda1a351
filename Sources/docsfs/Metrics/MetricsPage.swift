import Containers
import DocsEngine
import Faults
import FuseBridge
import StorageErrors

/// What Prometheus gets to read of a mount. All of it is counted anyway: making the page asks nobody, and takes no longer
/// for a large volume or a busy one. Names and labels are those of docs/OBSERVABILITY.md.
struct MetricsPage: Sendable {
  let volume: Volume
  let containers: ContainerStack
  let faults: FaultInjector
  let mount: MountTraffic
  let process = ProcessFacts()

  var text: String {
    var page = Exposition()
    page.add(.gauge, "docsfs_build_info", "The version of docsfs that serves the mount.") {
      $0.sample(["version": docsfsVersion], 1)
    }
    addMount(to: &page)
    addContainer(to: &page)
    addVolume(to: &page)
    addFaults(to: &page)
    addProcess(to: &page)
    return page.text
  }

  private func addMount(to page: inout Exposition) {
    page.add(.counter, "docsfs_operations_total", "Calls of the mount that were answered, by errno.") { family in
      for (operation, errno, count) in mount.counts {
        family.sample(["operation": operation.rawValue, "errno": errno?.name ?? "OK"], count)
      }
    }
    page.add(
      .counter, "docsfs_read_bytes_total", "Bytes of files that the kernel has read from the mount.", mount.read.value)
    page.add(
      .counter, "docsfs_written_bytes_total", "Bytes of files that were written to the mount.", mount.written.value)
  }

  private func addContainer(to page: inout Exposition) {
    let requests = containers.measured.traffic
    page.add(.counter, "docsfs_container_requests_total", "Requests to the container, each attempt, by outcome.") {
      for operation in CloudOperation.allCases {
        for outcome in RequestOutcome.allCases {
          let count = requests.requests(operation, outcome)
          if count > 0 || outcome == .ok {
            $0.sample(["operation": operation.metricLabel, "outcome": outcome.rawValue], count)
          }
        }
      }
    }
    page.add(.histogram, "docsfs_container_request_duration_seconds", "How long requests to the container took.") {
      for operation in CloudOperation.allCases {
        let durations = requests.durations(operation)
        $0.histogram(
          ["operation": operation.metricLabel], bounds: DurationHistogram.bounds, cumulative: durations.cumulative,
          sum: durations.sum)
      }
    }
    page.add(
      .counter, "docsfs_container_retries_total", "Requests that were made again after a failure.",
      containers.top.retries.value)
    page.add(
      .counter, "docsfs_container_received_bytes_total", "Bytes of files that came from the container.",
      requests.received.value)
    page.add(
      .counter, "docsfs_container_sent_bytes_total", "Bytes of files that left for the container.",
      requests.sent.value)
  }

  private func addVolume(to page: inout Exposition) {
    let status = volume.status()
    addQueue(status, to: &page)
    page.add(.gauge, "docsfs_items", "Files, folders and symlinks that are known.", status.items)
    page.add(.gauge, "docsfs_items_in_memory", "Those of them that are in memory.", status.itemsInMemory)
    page.add(.gauge, "docsfs_cache_bytes", "Bytes of files that are on the state disk.", status.cacheBytes)
    if let limit = status.cacheLimit {
      page.add(.gauge, "docsfs_cache_limit_bytes", "Above it files are evicted.", limit)
    }
    page.add(.counter, "docsfs_evictions_total", "Files that were evicted.", volume.counters.evictions.value)
    page.add(
      .counter, "docsfs_evicted_bytes_total", "Bytes that were evicted.", volume.counters.evictedBytes.value)
    page.add(.gauge, "docsfs_state_disk_full", "1 while writes are refused for want of room.", status.diskFull ? 1 : 0)
    let isUp = status.link == "connected" && faults.totals.profile == nil
    page.add(.gauge, "docsfs_link_up", "1 while the container is connected.", isUp ? 1 : 0)
    page.add(
      .gauge, "docsfs_link_changed_timestamp_seconds", "Since when the link to the container is up or down.",
      Self.time(before: status.linkAge))
    page.add(.counter, "docsfs_link_reconnects_total", "How often the container came back.", status.epoch)
  }

  private func addQueue(_ status: VolumeStatus, to page: inout Exposition) {
    let counters = volume.counters
    page.add(.counter, "docsfs_fetched_bytes_total", "Bytes of files that were fetched.", status.fetchedBytes)
    page.add(.counter, "docsfs_uploaded_bytes_total", "Bytes of files that were published.", status.uploadedBytes)
    page.add(.counter, "docsfs_changes_uploaded_total", "Local changes that the container has taken.") {
      $0.sample(["change": "put"], counters.puts.value)
      $0.sample(["change": "make_folder"], counters.madeFolders.value)
      $0.sample(["change": "make_symlink"], counters.madeSymlinks.value)
      $0.sample(["change": "rename"], counters.renames.value)
      $0.sample(["change": "remove"], counters.removals.value)
      $0.sample(["change": "set_attributes"], counters.attributeChanges.value)
    }
    page.add(
      .counter, "docsfs_upload_failures_total", "Uploads that failed and wait for another attempt.",
      counters.failedUploads.value)
    page.add(
      .counter, "docsfs_conflicts_total", "Changes that met somebody else's; both were kept.",
      counters.conflicts.value)
    page.add(.gauge, "docsfs_pending_items", "Items with something to upload.", status.dirtyItems)
    page.add(.gauge, "docsfs_pending_bytes", "Local bytes of files that are to be uploaded.", status.dirtyBytes)
    page.add(.gauge, "docsfs_failing_items", "Items whose last upload failed.", status.failingItems)
    if let oldest = status.oldestEdit {
      page.add(
        .gauge, "docsfs_oldest_pending_timestamp_seconds", "Since when the oldest change waits to be uploaded.",
        Self.time(before: oldest.age))
    }
    page.add(.gauge, "docsfs_uploads_running", "Items that are being uploaded.", status.uploading)
    page.add(.gauge, "docsfs_fetches_running", "Requests for bytes of files.", status.fetching)
    page.add(.gauge, "docsfs_fetch_queue_files", "Files that wait to be fetched as a whole.", status.fetchQueue)
    page.add(.gauge, "docsfs_uploads_paused", "1 while uploads are paused by command.", status.paused ? 1 : 0)
    page.add(
      .gauge, "docsfs_held_deletes", "Items that the container lacks, and whose removal is held.", status.heldDeletes)
  }

  private func addFaults(to page: inout Exposition) {
    let totals = faults.totals
    page.add(.gauge, "docsfs_fault_rules", "Fault rules that are set.", totals.rules)
    page.add(.counter, "docsfs_faults_fired_total", "How often fault rules have fired.", totals.fired)
    page.add(
      .counter, "docsfs_link_faults_total", "Calls that failed by a link profile and whose caller saw it.", totals.link)
    page.add(
      .counter, "docsfs_cloud_faults_total", "Requests that failed by a condition of the cloud command.",
      containers.cloud.failures.value)
  }

  private func addProcess(to page: inout Exposition) {
    page.add(.counter, "docsfs_log_lines_total", "Lines of the log.") {
      for level in Log.Level.allCases { $0.sample(["level": level.name], Log.written(level)) }
    }
    page.add(.counter, "docsfs_log_lines_dropped_total", "Lines that the log's reader had no room for.", Log.dropped)
    page.add(.counter, "process_cpu_seconds_total", "Processor time of the daemon.", process.cpuSeconds)
    page.add(.gauge, "process_resident_memory_bytes", "Memory of the daemon that is in RAM.", process.memory.resident)
    page.add(.gauge, "process_virtual_memory_bytes", "Address space of the daemon.", process.memory.virtual)
    page.add(.gauge, "process_open_fds", "Open file descriptors of the daemon.", process.openDescriptors)
    page.add(.gauge, "process_max_fds", "How many it may have.", process.descriptorLimit)
    page.add(.gauge, "process_start_time_seconds", "When the daemon started.", process.started)
  }

  /// Seconds since 1970.
  private static func time(before age: Double) -> Double {
    ((Double(Timestamp.now().nanoseconds) / 1e9 - age) * 1000).rounded() / 1000
  }
}

extension CloudOperation {
  /// `make_folder`: labels are written as Prometheus' own are.
  fileprivate var metricLabel: String {
    rawValue.reduce(into: "") { text, letter in text += letter.isUppercase ? "_\(letter.lowercased())" : "\(letter)" }
  }
}
