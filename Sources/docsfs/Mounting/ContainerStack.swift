import Containers

/// What stands between a volume and its container: attempts again, what each attempt takes, and what the cloud has been
/// told to do wrong.
struct ContainerStack: Sendable {
  let top: RetryingContainer
  let measured: MeasuredContainer
  let cloud: FaultingContainer

  init(_ container: any Container) {
    cloud = FaultingContainer(container)
    measured = MeasuredContainer(cloud)
    top = RetryingContainer(measured)
  }
}
